"""Additional steps of a backup through a replica.

Most archives are at one place: what talks to a coordination store is imported only where there is one.
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from holdfast.archive.archive import Archive
from holdfast.common.errors import BusyError, HoldfastError, OutcomeUnknownError, UsageError, sentence
from holdfast.replication.work.turn import renewing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.replication.log.replicas import Acting
    from holdfast.replication.log.settings import AnyAddress, QuorumRequest
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.replication.work.replica import ReplicatedArchive
    from holdfast.storage import ObjectStore

    Check = Callable[[], None]
    Say = Callable[[str], None]

_RENEW_S = 180.0
"""A fifth of a source's lease."""


def opened_for_backup(
    store: ObjectStore,
    *,
    check: Check,
    quorum_request: QuorumRequest | None = None,
    wait: float = 0.0,
    coordination: AnyAddress = None,
) -> Archive:
    """Open an archive to add to it; a replica is brought to the head of its log, and adds by it.

    :param check: raises if this work must not go on.
    :param wait: seconds for locks that others hold on the replica (LockBusy).
    :param coordination: address of the store with its log; None for what the environment says.
    :raises UsageError: nothing says where its log is; or it is no replica, and a quorum is asked for.
    """
    archive = Archive.open(store)
    archive.check_may_add()
    if archive.state.log is None:
        _refuse_quorum(quorum_request)
        return archive
    from holdfast.replication.log.store import opened
    from holdfast.replication.work.replica import ReplicatedArchive

    with opened(coordination) as log_store:
        replica = ReplicatedArchive.begin(store, log_store)
        replica.quorum_request = quorum_request
        replica.catch_up(check=check, wait=wait)
        return replica


def _refuse_quorum(quorum_request: QuorumRequest | None) -> None:
    if quorum_request is not None:
        raise UsageError(
            f"a quorum of {quorum_request.size} cannot be: this archive is at one place only. 'holdfast replica add' "
            "makes it the first of several"
        )


def until_kept(archive: Archive, source: str, position: str, *, check: Check, say: Say) -> None:
    """Wait until changes up to a position are in the archive for good: their server may then forget them.

    :raises QuorumFailedError, RefusedError: they were taken back; or the log has others by now.
    """
    if archive.state.log is None:
        return
    from holdfast.replication.log import log
    from holdfast.replication.work import quorum_wait as waiting
    from holdfast.replication.work.replica import ReplicatedArchive

    if not isinstance(archive, ReplicatedArchive):
        raise UsageError(f"{archive.store.url} is a replica that no process acts for")
    waiting.settle(archive, source, check=check, say=say)
    coordination, acting = archive.in_use()
    coordination.run(lambda c: log.check_settled_at(c, acting.archive, source, position))


def await_quorum(
    store: ObjectStore, block: str, *, address: AnyAddress, say: Say, patience: float = math.inf
) -> dict[str, Any]:
    """Wait until the quorum of a block has succeeded, and return its result, without locks but for those of syncs.

    :param say: takes words that say what is waited for.
    :param patience: seconds; the quorum's own deadline ends the wait in any case.
    :raises QuorumFailedError: too few replicas had it in time: the backup was taken back.
    :raises BusyError, OutcomeUnknownError: it is still pending then, as far as is known; or nothing is known.
    """
    from holdfast.replication.work.quorum_wait import QuorumWait, opened_to_wait
    from holdfast.storage import opener_like

    archive = Archive.open(store)
    if archive.state.log is None:
        raise UsageError(f"{store.url} is no replica: no quorum was asked for")
    places = opener_like(store)
    with opened_to_wait(address, block, patience=patience) as coordination:
        waiting = QuorumWait(coordination, archive.identity.id, block, archive.state.log.replica, places, say=say)
        waited = waiting.decided(patience=patience)
        waiting.check_success(waited)
    return {"entry": waited.index, "size": waited.size, "replicas": list(waited.votes)}


def pending_quorum(store: ObjectStore, block: str, *, address: AnyAddress) -> str:
    """Return a block's quorum in words; "" where it is settled, long overdue, or a sync of this replica helps."""
    from holdfast.replication.log import quorum
    from holdfast.replication.log.store import clock, opened
    from holdfast.replication.work.quorum_wait import SILENT_S, QuorumWait
    from holdfast.storage import opener_like

    archive = Archive.open(store)
    by = archive.state.log.replica if archive.state.log else ""
    with opened(address) as coordination:
        waited = QuorumWait(coordination, archive.identity.id, block, by, opener_like(store)).look()
        over = coordination.run(clock) > waited.deadline + SILENT_S
    helps = waited.state == quorum.COMMITTED and by not in waited.executed_by
    return "" if waited.is_settled or over or helps else waited.describe()


@contextmanager
def source_taken(
    store: ObjectStore,
    source: str,
    run: str,
    address: AnyAddress,
    *,
    quorum_request: QuorumRequest | None = None,
    wait: float = 0.0,
    say: Say = lambda words: None,
) -> Iterator[Check]:
    """Reserve a source for this replica while the block runs, and bring the replica to the head of the log.

    So what is decided by what this replica has is decided by what all have. Yields what waits, between two commits of
    one run, until a pending backup of the source is decided; for an archive at one place, nothing.

    :param wait: seconds for a backup of the source through another replica, and for locks on this one.
    :raises BusyError: another replica backs it up; or too few can be read for the quorum.
    :raises LockBusy, UsageError: another process works on this replica; or there are too few for the quorum.
    """
    if Archive.open(store).state.log is None:
        _refuse_quorum(quorum_request)
        yield lambda: None
        return
    from holdfast.replication.log import quorum, source_lease
    from holdfast.replication.log.errors import QuorumFailedError
    from holdfast.replication.log.replicas import renew
    from holdfast.replication.log.store import opened
    from holdfast.replication.work.quorum_wait import settle
    from holdfast.replication.work.replica import ReplicatedArchive
    from holdfast.replication.work.turn import in_turn

    with opened(address) as coordination:
        replica = ReplicatedArchive.begin(store, coordination)
        _, acting = replica.in_use()
        if quorum_request is not None:
            size = quorum_request.size
            coordination.run(lambda c: quorum.check_possible(c, acting.archive, size))
            replica.check_readable(quorum_request)
            coordination.run(lambda c: quorum.check_reachable(c, acting.archive, size, replica.unread))
        until = time.monotonic() + wait
        in_turn(
            lambda: coordination.run(lambda c: source_lease.take_source(c, acting, source, run)),
            wait=wait,
            say=say,
            meanwhile=lambda: coordination.run(lambda c: renew(c, acting)),
        )
        with _renewed(coordination, acting, source, run):
            try:
                settle(replica, source, say=say)
            except QuorumFailedError as error:  # of an earlier run, which has said so itself
                say(f"the last backup of {source} does not count: {error}")
            except OutcomeUnknownError as error:
                raise BusyError(f"the last backup of {source} is not decided: {sentence(error)}") from error
            replica.catch_up(wait=max(0.0, until - time.monotonic()))
            yield lambda: _settle_between(replica, source, say)


def _settle_between(replica: ReplicatedArchive, source: str, say: Say) -> None:
    from holdfast.replication.work.quorum_wait import settle

    settle(replica, source, say=say)
    replica.catch_up()


@contextmanager
def _renewed(coordination: CoordinationStore, acting: Acting, source: str, run: str) -> Iterator[None]:
    """Renew the leases of a source and of its replica during the block; the source's is released afterwards."""
    from holdfast.replication.log import source_lease

    def renew() -> None:
        coordination.run(lambda c: source_lease.take_source(c, acting, source, run))

    try:
        with renewing(renew, every=_RENEW_S, name="source lease"):
            yield
    finally:
        with suppress(HoldfastError):  # it ends with its lease
            coordination.run(lambda c: source_lease.release_source(c, acting, source, run))
