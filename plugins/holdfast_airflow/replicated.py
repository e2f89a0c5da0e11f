"""Access of operators to the replicas of an archive."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.common.errors import UsageError
from holdfast.operations.archive_context import ArchiveContext
from holdfast_airflow.connections import find_archive_or_connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


@contextmanager
def replicated(archive: str) -> Iterator[Replicated]:
    """Open the coordination store of an archive.

    :raises UsageError: it has no replicas, or their coordination store is not configured.
    """
    from holdfast.replication.log.store import opened
    from holdfast.replication.work.sync import log_at

    configured = find_archive_or_connection(archive)
    if not configured.replicas:
        raise UsageError(f"archive {archive} has no 'replicas' in archives.yaml")
    resolved = ArchiveContext.resolve(configured)
    with opened(resolved.coordination) as coordination:
        log = log_at(coordination, {replica.open().url for replica in resolved.replicas})
        yield Replicated(coordination, log, lambda url: resolved.at(url).open())
