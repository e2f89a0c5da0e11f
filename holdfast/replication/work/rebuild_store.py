"""Rebuild of an archive's update log from its replicas, for a coordination store that was lost.

The log goes on behind the entry that the furthest replica has executed. All that is there counts, also a block that
still waited for its quorum. Replicas that have the same go on as they are, unless the store still knows that they were
lost; all others are lost, and recovery gives them what they lack. Nothing is deleted anywhere.

The order is what makes it safe. A store that still knows the archive is closed first, by an id that no replica has.
Then each readable replica says in a commit that it follows the log of a new id: the old store is contradicted from
then on. Only then is the log written. Killed in between, it is run again: nothing can be appended until its end.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from holdfast.archive import locks
from holdfast.archive.format.state import Change
from holdfast.common.errors import BusyError, DamagedError, RefusedError, UsageError
from holdfast.replication.log import line, quorum, schema
from holdfast.replication.log.consistency_check import check_others
from holdfast.replication.log.errors import OldStoreError
from holdfast.replication.log.replicas import (
    Acting,
    LogState,
    add,
    change_archive,
    change_row,
    first_epoch,
    log_states,
    register,
    replica,
    replicas,
)
from holdfast.replication.log.store import clock
from holdfast.replication.work.survey import ReadableReplica, UnreadableReplica, ask, decide, of_archive
from holdfast.storage import open_store
from locking import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from holdfast.archive.archive import Archive
    from holdfast.archive.format.state import State
    from holdfast.archive.locks import HeldLocks
    from holdfast.replication.log.replicas import ReplicaRow
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.replication.work.survey import ReplicaFate, Survey, SurveyedReplica
    from holdfast.storage import ObjectStore


@dataclass(frozen=True)
class KnownArchive:
    """State of the archive that the store still has; `unsettled` blocks had no successful quorum."""

    log: LogState
    rows: tuple[ReplicaRow, ...]
    leader_epoch: int
    unsettled: frozenset[str]


@dataclass(frozen=True)
class Rebuilding:
    """Plan of a rebuild, and its result where `store` has the new log's id.

    :param record: None: the store knows nothing of it.
    :param is_needed: the store knows no replica of it, or contradicts one.
    :param choose: `decide`, with what a person said.
    """

    archive: str
    name: str
    record: KnownArchive | None
    replicas: tuple[SurveyedReplica, ...]
    survey: Survey
    is_needed: bool
    choose: Callable[..., Survey]
    store: str = ""

    @property
    def head(self) -> int:
        """Return the index of the last entry that counts."""
        return self.survey.source.place.index

    @property
    def state(self) -> State:
        """Return the state of the replica that the log goes on from."""
        return self.survey.source.archive.state

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Return the blocks that count from then on without a quorum."""
        return tuple(sorted(self.record.unsettled & self.state.blocks.keys())) if self.record else ()

    @property
    def given_up(self) -> int:
        """Return the number of the store's entries beyond the new head."""
        return max(0, self.record.log.head - self.head) if self.record else 0

    def check(self, *, force: bool) -> None:
        """Check that the rebuild is needed, or forced, and loses nothing unasked (RefusedError)."""
        if not self.is_needed and not force:
            unread = [replica.name for replica in self.replicas if isinstance(replica, UnreadableReplica)]
            raise RefusedError(
                "there is nothing to rebuild: the coordination store agrees with every replica that can be read. "
                + (f"Look again once {', '.join(unread)} can be, too; " if unread else "")
                + "--force rebuilds it all the same"
            )
        self.survey.check()


def prepare(
    coordination: CoordinationStore,
    urls: Mapping[str, str],
    *,
    word: str | None = None,
    source: str | None = None,
    without: Collection[str] = (),
    lose_acknowledged: bool = False,
    places: Callable[[str], ObjectStore] = open_store,
) -> Rebuilding:
    """Plan a rebuild from the replicas, without changing anything.

    :param urls: of replicas, by name; those that the store and their commits name come to them.
    :param word: the archive's id or name; None: the one of these replicas, else the only one in the store.
    :param source, without, lose_acknowledged: as `decide` takes them.
    :raises UsageError, RefusedError: no archive, or several, are named; or the log could go on from no replica.
    """
    surveyed = ask(urls, places)
    archive, name = _archive(coordination, surveyed, word)
    record = coordination.run(lambda c: _record(c, archive))
    if record is not None:
        surveyed += ask({row.name: row.url for row in record.rows if row.name not in urls}, places)
    surveyed += ask(_named(surveyed), places)
    surveyed = sorted(of_archive(surveyed, archive), key=lambda replica: replica.name)
    needed = record is None or coordination.run(lambda c: _contradicts(c, record, surveyed, coordination.url))
    lost = _lost(record.rows) if record else {}
    choose = partial(decide, source=source, without=tuple(without), lose_acknowledged=lose_acknowledged)
    return Rebuilding(archive, name, record, tuple(surveyed), choose(surveyed, lost=lost), needed, choose)


def _named(surveyed: Sequence[SurveyedReplica]) -> dict[str, str]:
    """Return the URLs by name that the furthest replica's commits name, but for those asked."""
    readable = [replica.place for replica in surveyed if isinstance(replica, ReadableReplica)]
    furthest = max(readable, key=lambda place: (not place.set_aside, place.index), default=None)
    asked = {replica.name for replica in surveyed}
    return {name: url for name, url in (furthest.members if furthest else {}).items() if name not in asked}


def _archive(
    coordination: CoordinationStore, surveyed: Sequence[SurveyedReplica], name_or_id: str | None
) -> tuple[str, str]:
    """Return the id and the name of the archive to rebuild."""
    there = {
        replica.archive.identity.id: replica.archive.identity.name
        for replica in surveyed
        if isinstance(replica, ReadableReplica)
    }
    if not there:
        there = {log.archive: log.name for log in coordination.run(log_states)}
    meant = {archive: name for archive, name in there.items() if name_or_id in (None, archive, name)}
    if len(meant) == 1:
        return meant.popitem()
    if meant:
        several = ", ".join(f"{name} ({archive})" for archive, name in sorted(meant.items()))
        raise UsageError(f"there are several archives, {several}: say which by --archive")
    unread = "".join(
        f"; {replica.name}: {replica.problem}" for replica in surveyed if isinstance(replica, UnreadableReplica)
    )
    what = f"an archive {name_or_id}" if name_or_id else "an archive with replicas"
    raise UsageError(f"nothing shows {what}{unread}. Say by --replica NAME=URL where its replicas are")


def _record(connection: Connection, archive: str) -> KnownArchive | None:
    log = next((log for log in log_states(connection) if log.archive == archive), None)
    if log is None:
        return None
    a, q = schema.archives.c, schema.quorums.c
    epoch = connection.execute(sa.select(a.leader_epoch).where(a.archive == archive)).scalar_one()
    unsettled = connection.execute(
        sa.select(q.block).where(q.archive == archive, q.state.in_((quorum.PENDING, quorum.FAILED)))
    )
    return KnownArchive(log, tuple(replicas(connection, archive)), epoch, frozenset(unsettled.scalars()))


def _lost(rows: Iterable[ReplicaRow]) -> dict[str, str]:
    return {row.name: row.lost_reason for row in rows if row.is_lost}


def _contradicts(connection: Connection, record: KnownArchive, surveyed: Sequence[SurveyedReplica], store: str) -> bool:
    """Return whether a replica contradicts the store, or the store has no replica at all."""
    if not record.rows:
        return True
    good = {row.name for row in record.rows if not row.is_lost} or {row.name for row in record.rows}
    readable = [replica for replica in surveyed if isinstance(replica, ReadableReplica)]
    if any(
        replica.place.store != record.log.store
        for replica in readable
        if replica.name in good and not replica.place.recovering
    ):
        return True
    try:
        check_others(connection, record.log.archive, {replica.url: replica.place for replica in readable}, store)
    except OldStoreError:
        return True
    return False


def rebuild(
    coordination: CoordinationStore,
    planned: Rebuilding,
    *,
    force: bool = False,
    wait: float = 0.0,
    places: Callable[[str], ObjectStore] = open_store,
) -> Rebuilding:
    """Rebuild the update log; a rebuild that was killed is prepared and run again, and goes on.

    :param force: also where the store is as it should be.
    :raises RefusedError: there is nothing to rebuild, or a replica has what would be lost.
    :raises LockBusy, BusyError: another process works on a replica; or one, or the store, was changed meanwhile.
    """
    planned.check(force=force)
    with ExitStack() as stack:
        held = {replica.name: stack.enter_context(_locked(replica, wait)) for replica in _in_order(planned.replicas)}
        # Once more: answers from before the locks were held may be old. What could not be read then has none.
        locked = ask({replica.name: replica.url for replica in _in_order(planned.replicas)}, places)
        unread = [replica for replica in planned.replicas if replica.name not in held]
        surveyed = sorted((*of_archive(locked, planned.archive), *unread), key=lambda replica: replica.name)
        lost = _lost(coordination.run(lambda c: replicas(c, planned.archive)))
        work = replace(planned, replicas=tuple(surveyed), survey=planned.choose(surveyed, lost=lost))
        work.survey.check()

        def check() -> None:
            for locks_held in held.values():
                locks_held.check()

        closed, store = str(uuid.uuid4()), str(uuid.uuid4())
        coordination.run(lambda c: _close(c, work, closed))
        log = {"store": store, "before": _stores_before(work), "members": _members(work)}
        for replica in _in_order(surveyed):
            _move(work, replica, log, check, held[replica.name].fence)
        entries = _entry_ids(coordination, work)
        coordination.run(lambda c: _write(c, work, closed, store, entries))
    return replace(work, store=store)


def _in_order(surveyed: Sequence[SurveyedReplica]) -> list[ReadableReplica]:
    """Return the readable replicas in the order in which every process takes their locks."""
    return sorted(
        (replica for replica in surveyed if isinstance(replica, ReadableReplica)), key=lambda replica: replica.url
    )


def _locked(locked: ReadableReplica, wait: float) -> HeldLocks:
    purpose = "rebuilding the coordination store"
    return locks.acquire(locked.archive.store, "rebuilding", owner=Owner(), purpose=purpose, wait=wait)


def _close(connection: Connection, work: Rebuilding, closed: str) -> None:
    """Close the log by an id that no replica has: nothing can be appended to it any more."""
    _check_unchanged(connection, work, work.record.log.store if work.record else None)
    r = schema.replicas.c
    change_archive(connection, work.archive, store=closed)
    connection.execute(schema.replicas.update().where(r.archive == work.archive).values(epoch=r.epoch + 1))


def _check_unchanged(connection: Connection, work: Rebuilding, store: str | None) -> None:
    now = next((log.store for log in log_states(connection) if log.archive == work.archive), None)
    if now != store:
        raise BusyError(f"another process has changed the log of {work.name} meanwhile: look at it, and start again")


def _stores_before(work: Rebuilding) -> dict[str, int]:
    """Return the stores that the log was in before, each with its last index that counts."""
    same = [fate.replica for fate in work.survey.fates if not fate.lost or fate.replica is work.survey.source]
    before: dict[str, int] = {}
    for place in (
        *(follower.place for follower in same if isinstance(follower, ReadableReplica)),
        work.survey.source.place,
    ):
        before |= {**place.before, place.store: work.head}
    return before


def _members(work: Rebuilding) -> dict[str, str]:
    """Return the replicas that commits name from now on; none where no entry has named any yet."""
    return (
        {fate.replica.name: fate.replica.url for fate in work.survey.fates} if work.survey.source.place.members else {}
    )


def _move(
    work: Rebuilding,
    moved: ReadableReplica,
    log: Mapping[str, Any],
    check: Callable[[], None],
    fence: str | None,
) -> None:
    """Commit that a replica follows another store's log from its last entry.

    One that is not equal to the source says by that that what it has more does not count.
    """
    lost = {fate.replica.name for fate in work.survey.fates if fate.lost}

    def plan(state: State) -> Change:
        if state.log != moved.place:  # locks give order only: this process may have been suspended for long
            raise BusyError(f"another process has changed {moved.url} meanwhile: start again")
        # It joins the others at this index; one that is being recovered is still not to be read.
        place = {
            **log,
            "entry": "",
            "passed": False,
            "reached": 0,
            "reached_entry": "",
            "set_aside": moved.name in lost,
        }
        return Change(kind="rebuilt", log=moved.place.model_copy(update=place))

    moved.archive.add(plan, check=check, fence=fence)


def _write(connection: Connection, work: Rebuilding, closed: str, store: str, entries: Mapping[int, str]) -> None:
    """Write the new log, behind the entries that are there; `entries`: their known ids, by index."""
    _check_unchanged(connection, work, closed if work.record else None)
    epochs = {row.name: row.epoch for row in replicas(connection, work.archive)}
    first = first_epoch(connection, work.archive) if work.record else 0
    abandoned = _abandoned(connection, work)
    for table in reversed(schema.metadata.sorted_tables):
        connection.execute(table.delete().where(table.c.archive == work.archive))
    source, head, state = work.survey.source, work.head, work.state
    log = LogState(work.archive, work.name, store, head=head, start=head + 1)
    register(connection, log, name=source.name, url=source.url, ends=state.ends, streams=state.streams)
    leader_epoch = work.record.leader_epoch + 1 if work.record else 0
    change_archive(connection, work.archive, quorum_index=head, leader_epoch=leader_epoch, epochs=first)
    line.write_line(connection, work.archive, entries, _stores_before(work))
    for fate in work.survey.fates:
        _write_replica(connection, work, fate, epochs.get(fate.replica.name, first) + 1)
    for block, name in sorted(abandoned.items()):
        row = {"archive": work.archive, "block": block, "replica": name, "at": clock(connection)}
        connection.execute(schema.abandoned.insert(), row)


def _entry_ids(coordination: CoordinationStore, work: Rebuilding) -> dict[int, str]:
    """Return the ids of the line's entries; lines with the same entry at one index agree before it."""
    logged = coordination.run(lambda c: line.entry_ids(c, work.archive))
    ids = _executed(work.survey.source.archive, logged)
    others = [
        _executed(replica.archive, logged) for replica in _in_order(work.replicas) if replica is not work.survey.source
    ]
    for entries in (logged, *others):
        shared = max((index for index, entry in entries.items() if ids.get(index) == entry), default=0)
        ids = {index: entry for index, entry in entries.items() if index < shared} | ids
    return ids


def _executed(archive: Archive, logged: Mapping[int, str]) -> dict[int, str]:
    """Return ids of entries executed since the last recovery, back to the first that is logged, too."""
    ids: dict[int, str] = {}
    with suppress(DamagedError):
        for commit in archive.newest_first() if logged else reversed(list(archive.commits())):
            if commit.log is None or commit.log.recovering:
                break
            if commit.log.entry:
                ids.setdefault(commit.log.index, commit.log.entry)
                if logged.get(commit.log.index) == commit.log.entry:
                    break
    return ids


def _abandoned(connection: Connection, work: Rebuilding) -> dict[str, str]:
    """Return the blocks that no entry may add any more, each with the replica that they lie at."""
    b = schema.abandoned.c
    recorded = connection.execute(sa.select(b.block, b.replica).where(b.archive == work.archive))
    committed = {
        block: replica.name for replica in _in_order(work.replicas) for block in replica.archive.state.abandoned
    }
    return committed | {row.block: row.replica for row in recorded}


def _write_replica(connection: Connection, work: Rebuilding, fate: ReplicaFate, epoch: int) -> None:
    surveyed = fate.replica
    if surveyed is not work.survey.source:
        add(connection, work.archive, name=surveyed.name, url=surveyed.url)
    change_row(
        connection,
        Acting(work.archive, surveyed.name, replica(connection, work.archive, surveyed.name).epoch),
        epoch=epoch,
        pointer=min(surveyed.place.index, work.head) + 1 if isinstance(surveyed, ReadableReplica) else 0,
        is_lost=bool(fate.lost),
        lost_reason=fate.lost if fate.was_lost or not fate.lost else f"when the store was rebuilt: {fate.lost}",
    )
