"""What a backup through a replica does beside what every backup does.

Most archives are at one place: what talks to a coordination store is imported only where there is one.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from holdfast.archive.archive import Archive
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.replication.replicas import Acting
    from holdfast.replication.store import CoordinationStore
    from holdfast.storage import ObjectStore

STORE_VARIABLE = "HOLDFAST_STORE"
"""The environment variable that says where the coordination store is."""

_RENEW_S = 180.0
"""A fifth of a source's lease."""


def open_to_write(store: ObjectStore, *, check: Callable[[], None]) -> Archive:
    """Open an archive to add to it. A replica is brought to the head of its log, and adds by it.

    :param check: raises if this work must not go on.
    :raises UsageError: it is a replica, and nothing says where its log is.
    """
    archive = Archive.open(store)
    if archive.state.log is None:
        return archive
    from holdfast.replication.replica import ReplicatedArchive
    from holdfast.replication.store import opened

    with opened(None) as coordination:
        replica = ReplicatedArchive.begin(store, coordination)
        replica.catch_up(check=check)
        return replica


@contextmanager
def source_taken(store: ObjectStore, source: str, run: str, address: str | None) -> Iterator[None]:
    """Keep other replicas from backing up a source while the block runs, and bring this one to the head of the log.

    So what is decided by what this replica has is decided by what all have. Of an archive at one place, nothing.

    :param address: of the coordination store; None for what the environment says.
    :raises BusyError: it is being backed up through another replica; names the run.
    """
    if Archive.open(store).state.log is None:
        yield
        return
    from holdfast.replication import log
    from holdfast.replication.replica import ReplicatedArchive
    from holdfast.replication.store import opened

    with opened(address) as coordination:
        replica = ReplicatedArchive.begin(store, coordination)
        _, acting = replica.in_use()
        coordination.run(lambda c: log.take_source(c, acting, source, run))
        ended = threading.Event()
        renewer = threading.Thread(
            target=_renew, args=(coordination, acting, source, run, ended), name="source lease", daemon=True
        )
        renewer.start()
        try:
            replica.catch_up()
            yield
        finally:
            ended.set()
            renewer.join()
            with suppress(HoldfastError):  # it ends with its lease
                coordination.run(lambda c: log.release_source(c, acting, source, run))


def _renew(coordination: CoordinationStore, acting: Acting, source: str, run: str, ended: threading.Event) -> None:
    """Renew the leases of a source and of the replica; where that fails, the append decides: it asks for the ends."""
    from holdfast.replication import log

    while not ended.wait(_RENEW_S):
        with suppress(HoldfastError):
            coordination.run(lambda c: log.take_source(c, acting, source, run))
