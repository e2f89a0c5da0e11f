"""Membership of replicas: the first one of an update log, more of them, fewer, and election after all are lost.

Additions and removals count once enough of the replicas before have executed them: so these are synced here.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from holdfast.archive import locks
from holdfast.archive.archive import Archive
from holdfast.archive.format.model import LogPlace
from holdfast.archive.format.state import Change
from holdfast.common.errors import HoldfastError, RefusedError, UsageError, sentence
from holdfast.replication.log import schema
from holdfast.replication.log.consistency_check import archive_place, check_line, look_at, run_agreed
from holdfast.replication.log.line import entry_id
from holdfast.replication.log.membership import check_counts, end_membership, join, join_recovered, leave, waited_for
from holdfast.replication.log.replicas import (
    LogState,
    change_archive,
    log_state,
    log_states,
    put_ends,
    register,
    replica,
    replicas,
    why_lost,
)
from holdfast.replication.work.sync import sync_replica
from holdfast.storage import open_store
from locking import LockError, Owner
from locking.one_line import line_logger
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sqlalchemy import Connection

    from holdfast.replication.log.replicas import ReplicaRow
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.storage import ObjectStore

logger = line_logger(__name__)

FORMAT_SINCE = 2
"""The format of archives that can have replicas."""


def begin_membership(coordination: CoordinationStore, store: ObjectStore, name: str, *, wait: float = 0.0) -> LogState:
    """Make an archive the first replica of a new update log; run again after a kill it goes on."""
    with locks.acquire(store, "joining", owner=Owner(), purpose=f"becoming replica {name}", wait=wait) as held:
        archive = Archive.open(store)
        if archive.state.format < FORMAT_SINCE:
            raise UsageError(
                f"{store.url} has format {archive.state.format}, and replicas need {FORMAT_SINCE}: "
                f"holdfast migrate {store.url} --to {FORMAT_SINCE}"
            )
        first = LogPlace(store=str(uuid.uuid4()), replica=name, index=0, base=archive.state.sequence + 1)
        place = archive.state.log or first
        if (place.replica, place.index) != (name, 0):
            raise UsageError(
                f"{store.url} is replica {place.replica} already, at entry {place.index} of the log in store "
                f"{place.store}"
            )
        if archive.state.log is None:
            archive.add(lambda state: Change(kind="joined", log=place), check=held.check, fence=held.fence)
        log = LogState(archive.identity.id, archive.identity.name, place.store, head=0, start=1)
        state = archive.state

        def enter(connection: Connection) -> None:
            for log_before in log_states(connection):
                if (log_before.archive, log_before.store) == (log.archive, log.store):
                    return  # by an earlier try
            register(connection, log, name=name, url=store.url, ends=state.ends, streams=state.streams)

        coordination.run(enter)
    return log


def add(
    coordination: CoordinationStore,
    archive: str,
    name: str,
    url: str,
    *,
    wait: float = 0.0,
    places: Callable[[str], ObjectStore] = open_store,
) -> None:
    """Add a replica that has nothing yet; recovery makes it what the others are. Run again it goes on.

    :raises UsageError: the name, or the place, is another one's.
    :raises OldStoreError: a replica, or what lies at the URL, contradicts the coordination store.
    :raises BusyError: too few replicas could execute the entry; names them.
    """
    check_line(coordination, archive, name, places(url))
    index = run_agreed(coordination, archive, lambda c, answers: join(c, archive, name=name, url=url), places)
    if index:
        _spread(coordination, archive, index, wait=wait, places=places)


def remove(
    coordination: CoordinationStore,
    archive: str,
    name: str,
    *,
    force: bool = False,
    wait: float = 0.0,
    places: Callable[[str], ObjectStore] = open_store,
) -> str:
    """Remove a replica; return in words what cannot be known any more, "" where it has executed its removal.

    Nothing else at its URL is changed. Run again it goes on.

    :param force: even where it has what no other one has, and where too few replicas can execute the entry.
    :raises RefusedError, OldStoreError, BusyError: it may have what no other one has; or as `add` does.
    """
    row = coordination.run(lambda c: replica(c, archive, name))

    def begin(connection: Connection) -> tuple[int, str | None]:
        index = leave(connection, archive, name, force=force)
        return index, entry_id(connection, archive, index)

    removal = run_agreed(coordination, archive, lambda c, answers: begin(c), places)
    index = removal[0]
    why = _execute(coordination, archive, row, wait, places) if index else ""
    gone = name if why else ""
    if index:
        try:
            _spread(coordination, archive, index, but_for=gone, wait=wait, places=places)
        except HoldfastError:
            if not force:
                raise
    coordination.run(lambda c: end_membership(c, archive, name, removal, force=force, but_for=gone))
    if not why:
        return ""
    return (
        f"{name} could not record that it was removed ({why}): should the coordination store be put back from a copy "
        f"that is older than this, and used at {row.url} alone, nothing would show that"
    )


def _execute(
    coordination: CoordinationStore,
    archive: str,
    row: ReplicaRow,
    wait: float,
    places: Callable[[str], ObjectStore],
) -> str:
    """Sync a replica; return in words why that was not possible, or ""."""
    try:
        sync_replica(coordination, archive, row, wait=wait, places=places)
    except (HoldfastError, LockError, StoreError) as error:
        return sentence(error)
    return ""


def _spread(
    coordination: CoordinationStore,
    archive: str,
    index: int,
    *,
    but_for: str = "",
    wait: float,
    places: Callable[[str], ObjectStore],
) -> None:
    """Sync replicas until an entry of membership counts; `but_for` leaves by it."""
    count, waiting = coordination.run(lambda c: waited_for(c, archive, index, but_for=but_for))
    for row in waiting:
        if not count:
            return
        if not row.is_lost and (why := _execute(coordination, archive, row, wait, places)):
            logger.warning("%s cannot be synced now: %s.", row.name, why)
        count, _ = coordination.run(lambda c: waited_for(c, archive, index, but_for=but_for))
    coordination.run(lambda c: check_counts(c, archive, index, but_for=but_for))


def only_archive(coordination: CoordinationStore, archive: str | None) -> LogState:
    """Return the log of the archive with this id or name, or of the only one (UsageError)."""
    there = coordination.run(log_states)
    meant = [log for log in there if archive in (None, log.archive, log.name)]
    if len(meant) == 1:
        return meant[0]
    if not there:
        raise UsageError(
            f"no archive has replicas in {coordination.url} yet: 'holdfast replica add' makes the first one"
        )
    names = ", ".join(f"{log.name} ({log.archive})" for log in there)
    what = "several archives" if meant else "no such archive"
    raise UsageError(f"there is {what} in {coordination.url}; say which by --archive; it has: {names}")


def elect(
    coordination: CoordinationStore,
    archive: str,
    name: str,
    *,
    lose_entries: bool = False,
    lose_acknowledged: bool = False,
    places: Callable[[str], ObjectStore] = open_store,
    wait: float = 0.0,
) -> int:
    """Make a lost replica the one to go on with, where all are lost; return how many entries are given up.

    Its archive is as it is. Where the log no longer has what follows it, those entries are given up: backups go on from
    what it has, and where a source's log does not reach back that far, they start over.

    :param lose_entries, lose_acknowledged: give them up, also those that a quorum has acknowledged.
    :raises RefusedError: not all are lost, or it was set aside, or entries would be given up unsaid.
    :raises OldStoreError: a readable replica has executed an entry that the store does not have.
    """
    row = coordination.run(lambda c: replica(c, archive, name))
    unnoticed = _lost_unnoticed(coordination, archive, places)
    coordination.run(lambda c: _all_lost(c, archive, unnoticed))
    store = archive_place(coordination, archive, row, places)
    with locks.acquire(store, "recovery", owner=Owner(), purpose=f"election of {name}", wait=wait) as held:
        opened = Archive.open(store)
        place = opened.state.log
        if opened.identity.id != archive or place is None or place.replica != name:
            raise UsageError(f"{row.url} is not replica {name} of this archive: nothing can go on from it")
        if place.set_aside:  # what it has is not of this line, at any index
            raise RefusedError(
                f"{name} was set aside when the coordination store was rebuilt: elect another one, or have the log go "
                f"on from it all the same by 'holdfast replica rebuild-store --from {name}'"
            )
        log = coordination.run(lambda c: _all_lost(c, archive, unnoticed))
        check_line(coordination, archive, name, store)
        run_agreed(coordination, archive, lambda c, answers: None, places)
        count = given_up(log, place.index)
        if count:
            _check_said(log, name, place.index, lose_entries=lose_entries, lose_acknowledged=lose_acknowledged)
            beyond = place.model_copy(update={"index": log.head, "entry": ""})
            opened.add(lambda state: Change(kind="elected", log=beyond), check=held.check, fence=held.fence)
        state, index = opened.state, log.head if count else place.index

        def enter(connection: Connection) -> None:
            _all_lost(connection, archive, unnoticed)
            r, s = schema.replicas.c, schema.sources.c
            for lost, why in unnoticed.items():
                of_lost = schema.replicas.update().where(r.archive == archive, r.name == lost.name, ~r.is_lost)
                connection.execute(of_lost.values(is_lost=True, lost_reason=why))
            connection.execute(
                schema.replicas.update()
                .where(r.archive == archive, r.name == name)
                .values(
                    is_lost=False,
                    lost_reason="",
                    recovers_from="",
                    pointer=index + 1,
                    trimmed_bytes=0,
                    epoch=r.epoch + 1,
                    active_until=0.0,
                )
            )
            if index == log.head:  # else entries follow that say what becomes of the sources, and of quorums
                _forget_entries(connection, archive, log.head)
                connection.execute(schema.sources.delete().where(s.archive == archive))
                for source in sorted({*state.ends, *state.streams}):
                    put_ends(connection, archive, source, (state.ends.get(source, ""), state.streams.get(source, "")))
            if row.is_joining:  # its first recovery was ended just before it was done
                join_recovered(connection, archive, name)

        coordination.run(enter)
    return count


def given_up(log: LogState, index: int) -> int:
    """Return how many entries are given up where the log goes on from a replica at an index.

    Entries that are still there stand behind those that are not: what they add need not follow on anything.
    """
    return log.head - index if index < log.start - 1 else 0


def needed_words(log: LogState, index: int) -> str:
    """Return the options by which a person gives up the entries beyond an index."""
    return "--lose-entries --lose-acknowledged" if log.quorum > index else "--lose-entries"


def _check_said(log: LogState, name: str, index: int, *, lose_entries: bool, lose_acknowledged: bool) -> None:
    """Check that the caller has agreed to give up the entries beyond an index."""
    acknowledged = log.quorum > index
    if lose_entries and (lose_acknowledged or not acknowledged):
        return
    quorum = f" Entry {log.quorum}, which acknowledges the quorum of a backup, is one of them." if acknowledged else ""
    raise RefusedError(
        f"{name} has entries up to {index}, and the log begins at {log.start}: {given_up(log, index)} entries would be "
        f"given up, with the backups they added.{quorum} See whether another replica has them; else say "
        f"{needed_words(log, index)}"
    )


def _forget_entries(connection: Connection, archive: str, head: int) -> None:
    """Remove the rest of the log, and of its quorums: only the elected replica's content counts."""
    for table in (schema.entries, schema.blocks, schema.quorums, schema.votes):
        connection.execute(table.delete().where(table.c.archive == archive, table.c.index <= head))
    change_archive(connection, archive, log_start=head + 1)


def _lost_unnoticed(
    coordination: CoordinationStore, archive: str, places: Callable[[str], ObjectStore]
) -> dict[ReplicaRow, str]:
    """Return why replicas have to be recovered that the store takes for good ones, by row."""
    good = [row for row in coordination.run(lambda c: replicas(c, archive)) if not row.is_lost]
    positions = look_at(coordination, archive, good, places)
    whys = {row: why_lost(row, place) for row in good if not isinstance(place := positions[row.name], str)}
    return {row: why for row, why in whys.items() if why}


def _all_lost(connection: Connection, archive: str, unnoticed: Collection[ReplicaRow]) -> LogState:
    """Check that all replicas are lost, by the store or as was noticed."""
    lost = {(row.name, row.epoch) for row in unnoticed}
    rows = replicas(connection, archive)
    good = [row.name for row in rows if not row.is_lost and (row.name, row.epoch) not in lost]
    if good:
        raise RefusedError(f"not all replicas are lost: those that are can be recovered from {' or '.join(good)}")
    return log_state(connection, archive)
