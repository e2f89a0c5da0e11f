"""Leading an archive while work goes on: what a compaction or a truncation of a replica does beside its work."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.replication.leader import LEASE_S, go_on, lead, resign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.replication.replica import ReplicatedArchive
    from holdfast.replication.replicas import Acting
    from holdfast.replication.store import CoordinationStore

_RENEW_S = LEASE_S / 5


@contextmanager
def leading(archive: ReplicatedArchive) -> Iterator[ReplicatedArchive]:
    """Lead through a replica while the block runs; what is added to it then is appended as its leader's.

    :raises BusyError: another replica leads; names it.
    """
    coordination, acting = archive.in_use()
    epoch = coordination.run(lambda c: lead(c, acting))
    archive.leader_epoch = epoch
    ended = threading.Event()
    renewer = threading.Thread(
        target=_renew, args=(coordination, acting, epoch, ended), name="leader lease", daemon=True
    )
    renewer.start()
    try:
        yield archive
    finally:
        ended.set()
        renewer.join()
        archive.leader_epoch = None
        with suppress(HoldfastError):  # it ends with its lease
            coordination.run(lambda c: resign(c, acting, epoch))


def _renew(coordination: CoordinationStore, acting: Acting, epoch: int, ended: threading.Event) -> None:
    """Renew the lease; where that fails, the append decides: it asks who leads."""
    while not ended.wait(_RENEW_S):
        with suppress(HoldfastError):
            coordination.run(lambda c: go_on(c, acting, epoch))
