"""Access of operators to the replicas of an archive."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from holdfast.common.errors import UsageError
from holdfast.replication.log.settings import STORE_VARIABLE, StoreAddress
from holdfast_airflow.connections import find_archive_or_connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.replication.log.replicas import LogState, ReplicaRow
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.storage import ObjectStore


@dataclass(frozen=True)
class Replicated:
    """An archive with replicas.

    :param places: opens one of them by its URL.
    """

    coordination: CoordinationStore
    log: LogState
    places: Callable[[str], ObjectStore]

    def rows(self) -> list[ReplicaRow]:
        """Return its replicas."""
        from holdfast.replication.log.replicas import replicas

        return self.coordination.run(lambda c: replicas(c, self.log.archive))


def coordination_address(archive: ArchiveConfig) -> str | None:
    """Return the address of the store with an archive's update log; None where none is configured."""
    return os.environ.get(STORE_VARIABLE) or archive.store


def store_address(archive: ArchiveConfig) -> StoreAddress:
    """Return the address of the store with an archive's update log, and the replicas that are configured.

    A store that was brought back from an older copy may not know them.
    """
    return StoreAddress(coordination_address(archive), archive.replicas or {})


@contextmanager
def replicated(archive: str) -> Iterator[Replicated]:
    """Open the coordination store of an archive.

    :param archive: a name in archives.yaml, which says `replicas` there, and `store` there or HOLDFAST_STORE.
    :raises UsageError: it has no replicas, or nobody says where their store is.
    """
    from holdfast.replication.log.store import opened
    from holdfast.replication.work.upkeep import log_at
    from holdfast.storage import open_store

    configured = find_archive_or_connection(archive)
    if not configured.replicas:
        raise UsageError(f"archive {archive} has no 'replicas' in archives.yaml")
    places = partial(open_store, key=configured.key, signing=configured.signs)
    with opened(store_address(configured)) as coordination:
        log = log_at(coordination, {places(url).url for url in configured.replicas.values()})
        yield Replicated(coordination, log, places)
