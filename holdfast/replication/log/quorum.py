"""Quorums of backups.

A backup with a quorum counts only once several replicas hold it. One transaction each.

The entry is appended like any other, and is *pending*: each replica that has executed it says so, and who completes the
number has it succeed, with an entry that says so. After its deadline, the first process that sees it has
it fail: the backup is taken back, with an entry that removes its block from those that hold it. Either happens once,
and for all. It is *settled* once as many replicas have executed that it has succeeded: a copy of the store from before
that is then contradicted by them, and cannot fail it again.

A retry differs from its first try by where the source's backups end: a second backup from the same position is
refused while the first one is pending, and after it has succeeded; a failure goes back to that position.

Source of the rules: the paper that docs/replication.md names. `specs/Quorum.tla` checks them, and what goes wrong
without each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from holdfast.common.errors import BusyError, UsageError
from holdfast.replication.log import schema
from holdfast.replication.log.replicas import guard, replicas
from holdfast.replication.log.store import clock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy import Connection

    from holdfast.replication.log.replicas import Acting, ReplicaRow
    from holdfast.replication.log.settings import QuorumRequest

PENDING, COMMITTED, FAILED = "pending", "committed", "failed"

SMALLEST = 2
"""Replicas that the smallest quorum has."""

_Q = schema.quorums.c
_V = schema.votes.c


@dataclass(frozen=True)
class Quorum:
    """State of an entry's quorum.

    :param index: of the entry.
    :param source: whose backup it is.
    :param deadline: seconds since 1970 by the store's clock.
    :param dropped_by: index of the entry that takes the backup back; 0: none.
    :param votes: names of the replicas that hold it.
    :param acknowledged_by: index of the entry that says it has succeeded; 0: none, as of earlier releases' successes.
    :param executed_by: names of the replicas that have executed that one.
    """

    index: int
    block: str
    source: str
    size: int
    state: str
    deadline: float
    dropped_by: int
    votes: tuple[str, ...] = ()
    acknowledged_by: int = 0
    executed_by: tuple[str, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Return whether it is decided, and no copy of the store could decide it otherwise."""
        if self.state == COMMITTED:
            return not self.acknowledged_by or len(self.executed_by) >= self.size
        return self.state == FAILED

    def describe(self) -> str:
        """Return the votes of the quorum in words."""
        which = f"entry {self.index} (a backup of {self.source})"
        if self.state == COMMITTED:
            names = ", ".join(self.executed_by) or "none"
            return (
                f"{which}: its quorum has succeeded, and {len(self.executed_by)} of {self.size} replicas have executed "
                f"entry {self.acknowledged_by}, which says so ({names})"
            )
        return f"{which}: {len(self.votes)} of {self.size} replicas ({', '.join(self.votes) or 'none'})"


def counted(rows: Sequence[ReplicaRow], size: int) -> list[ReplicaRow]:
    """Return the replicas whose votes count for a quorum of a size.

    Those of one that was added count once as many of the replicas before it have executed its addition, or all where
    there were fewer. Else a copy of the coordination store from before that could have the same index acknowledged by
    the others alone. Only replicas that count themselves make another one count: an older copy may not know the others.
    """
    counting: list[ReplicaRow] = []
    for row in sorted(present(rows), key=lambda row: row.joined_by):
        older = [other for other in counting if other.joined_by < row.joined_by]
        if len(executed(older, row.joined_by)) >= min(size, len(older)):
            counting.append(row)
    return sorted(counting, key=lambda row: row.name)


def present(rows: Iterable[ReplicaRow]) -> list[ReplicaRow]:
    """Return the replicas without those that were never recovered.

    These have nothing and no vote, so an addition that was stopped takes away no tolerance. The entry that ends their
    recovery (`membership.join_recovered`) contradicts a copy of the coordination store in which they are still new.
    """
    return [row for row in rows if not row.is_joining]


def executed(rows: Iterable[ReplicaRow], index: int) -> list[ReplicaRow]:
    """Return those of some replicas that have executed an entry and are not lost."""
    return [row for row in rows if row.pointer > index and not row.is_lost]


def check_possible(connection: Connection, archive: str, size: int) -> None:
    """Check that an archive has enough replicas for a quorum.

    :raises UsageError: there are not.
    """
    there = replicas(connection, archive)
    if size > len(there):
        raise UsageError(
            f"a quorum of {size} cannot be: the archive has {len(there)} replicas "
            f"({', '.join(row.name for row in there)}). Add one, or ask for less"
        )


def check_reachable(connection: Connection, archive: str, size: int, unread: Collection[str]) -> None:
    """Check that enough replicas could hold a backup now, before any work is done for it.

    :param unread: names of replicas that could not be read.
    :raises BusyError: too few can be read and are not lost: the backup would be taken back at its deadline.
    """
    there = replicas(connection, archive)
    away = [row for row in there if row.is_lost or row.name in unread]
    if len(there) - len(away) < size:
        said = ", ".join(f"{row.name} {'is lost' if row.is_lost else 'cannot be read'}" for row in away)
        raise BusyError(
            f"a backup with a quorum of {size} cannot succeed now, and is not begun: {said}. 'holdfast replica repair' "
            "shows what to do; --quorum 1 backs up without it"
        )


def too_few_readable(connection: Connection, archive: str, size: int, unread: Collection[str]) -> str:
    """Return in words why quorums must not be decided or read now; "" where enough replicas can be read.

    Any quorum has one of n - size + 1 replicas: so one of those that were read would contradict a store that does not
    know of its success. One whose votes do not count yet is among the n: they may count by now, in a store of which
    this is an older copy.

    :param size: of the smallest quorum that it is about.
    :param unread: names of replicas that could not be read.
    """
    there = [row.name for row in present(replicas(connection, archive))]
    away = [name for name in there if name in unread]
    needed = len(there) - size + 1
    if len(there) - len(away) >= needed:
        return ""
    return (
        f"{needed} of the {len(there)} replicas have to be readable, so that a quorum of {size} is known which the "
        f"coordination store may have forgotten; {', '.join(away)} cannot be read now"
    )


def overdue(connection: Connection, archive: str) -> list[Quorum]:
    """Return the pending quorums whose deadline is over."""
    now = clock(connection)
    return [waiting for waiting in pending(connection, archive) if waiting.deadline <= now]


def check_settled(connection: Connection, archive: str, source: str) -> None:
    """Check that no backup of a source is pending.

    The next backup would build on one that may be taken back.

    :raises BusyError: something is.
    """
    for quorum in pending(connection, archive, source=source):
        seconds = quorum.deadline - clock(connection)
        raise BusyError(
            f"the last backup of {source} still waits for its quorum: {quorum.describe()}, for "
            f"{max(0.0, seconds):.0f} s at most"
        )


def begin(
    connection: Connection,
    archive: str,
    index: int,
    *,
    block: str,
    source: str,
    ends: tuple[str, str],
    quorum_request: QuorumRequest,
) -> None:
    """Record that an entry counts only with a quorum.

    It is part of the transaction that appends the entry.

    :param ends: of the source before it.
    :raises UsageError: there are not so many replicas.
    """
    check_possible(connection, archive, quorum_request.size)
    connection.execute(
        schema.quorums.insert(),
        {
            "archive": archive,
            "index": index,
            "block": block,
            "source": source,
            "size": quorum_request.size,
            "state": PENDING,
            "deadline": clock(connection) + quorum_request.timeout,
            "end_before": ends[0],
            "stream_before": ends[1],
            "dropped_by": 0,
            "acknowledged_by": 0,
        },
    )


def vote(connection: Connection, acting: Acting, *, index: int, blocks: Collection[str]) -> list[Quorum]:
    """Vote for the pending entries that a replica holds.

    Return the quorums that are complete by that. The vote has them succeed in the same transaction.

    :param index: of the last entry that the replica has; `blocks`: ids of those that it holds.
    :raises EpochOverError, LostReplicaError: as `replicas.guard` does.
    """
    guard(connection, acting)
    complete = []
    for quorum in pending(connection, acting.archive):
        if quorum.index > index or quorum.block not in blocks:
            continue
        _vote(connection, acting, quorum.index)
        if len(_votes(connection, acting.archive, quorum.index, quorum.size)) >= quorum.size:
            complete.append(quorum)
    return complete


def succeed(connection: Connection, archive: str, index: int, *, acknowledged_by: int) -> bool:
    """Have a quorum succeed.

    Return False where it is decided already. Part of the transaction that appends the entry that says so.
    """
    if not _decide(connection, archive, index, COMMITTED, acknowledged_by=acknowledged_by):
        return False
    _set_index(connection, archive, acknowledged_by)
    return True


def _vote(connection: Connection, acting: Acting, index: int) -> None:
    mine = (_V.archive == acting.archive, _V.index == index, _V.replica == acting.name)
    changed = connection.execute(schema.votes.update().where(*mine).values(epoch=acting.epoch))
    if not changed.rowcount:
        row = {"archive": acting.archive, "index": index, "replica": acting.name, "epoch": acting.epoch}
        connection.execute(schema.votes.insert(), row)


def _votes(connection: Connection, archive: str, index: int, size: int) -> tuple[str, ...]:
    """Return the replicas with a valid vote.

    The vote of a replica that was lost since, or is in another epoch by now, does not count, nor that of one whose
    addition does not count yet.
    """
    query = sa.select(_V.replica, _V.epoch).where(_V.archive == archive, _V.index == index)
    given = {(row[0], row[1]) for row in connection.execute(query)}
    rows = counted(replicas(connection, archive), size)
    return tuple(row.name for row in rows if not row.is_lost and (row.name, row.epoch) in given)


def _decide(connection: Connection, archive: str, index: int, state: str, **more: object) -> bool:
    """Decide a quorum that is pending; return False where it is decided already."""
    updated = connection.execute(
        schema.quorums.update()
        .where(_Q.archive == archive, _Q.index == index, _Q.state == PENDING)
        .values(state=state, **more)
    )
    return bool(updated.rowcount)


def _set_index(connection: Connection, archive: str, index: int) -> None:
    c = schema.archives.c
    connection.execute(schema.archives.update().where(c.archive == archive).values(quorum_index=index))


def fail(connection: Connection, archive: str, quorum: Quorum, *, dropped_by: int) -> bool:
    """Fail a quorum, and set the ends of its source back.

    Return False where it is decided already. Part of the transaction that appends the entry that takes the backup back.
    No replica's pointer moves: those that have not come to the entry yet are still to pass it.
    """
    if not _decide(connection, archive, quorum.index, FAILED, dropped_by=dropped_by):
        return False
    s = schema.sources.c
    end, stream = ends_before(connection, archive, quorum)
    connection.execute(
        schema.sources.update()
        .where(s.archive == archive, s.source == quorum.source)
        .values(end_position=end, stream_end=stream)
    )
    return True


def give_up(connection: Connection, archive: str, index: int, *, block: str, source: str, dropped_by: int) -> None:
    """Mark an entry as one with a failed quorum.

    It may have had no quorum, or one of any outcome. Part of the transaction that appends the entry that takes it back.
    """
    changed = connection.execute(
        schema.quorums.update()
        .where(_Q.archive == archive, _Q.index == index)
        .values(state=FAILED, dropped_by=dropped_by)
    )
    if not changed.rowcount:
        row = {"archive": archive, "index": index, "block": block, "source": source, "dropped_by": dropped_by}
        blank = {"size": 0, "state": FAILED, "deadline": 0.0, "end_before": "", "stream_before": ""}
        connection.execute(schema.quorums.insert(), row | blank)


def ends_before(connection: Connection, archive: str, quorum: Quorum) -> tuple[str, str]:
    """Return the source's end positions before the entry of a quorum.

    They are those of its backups and of its changes.
    """
    query = sa.select(_Q.end_before, _Q.stream_before).where(_Q.archive == archive, _Q.index == quorum.index)
    end, stream = connection.execute(query).one()
    return end, stream


def pending(connection: Connection, archive: str, *, source: str | None = None) -> list[Quorum]:
    """Return the quorums that are not decided, by index.

    :param source: only this one's.
    """
    query = _select().where(_Q.archive == archive, _Q.state == PENDING).order_by(_Q.index)
    if source is not None:
        query = query.where(_Q.source == source)
    return [_read(connection, archive, row) for row in connection.execute(query).all()]


def unsettled(connection: Connection, archive: str, source: str) -> list[Quorum]:
    """Return the quorums of a source that are pending, or that too few replicas know to have succeeded.

    Of those that have succeeded the last one is looked at: who has executed that has executed the others.
    """
    succeeded = _select().where(_Q.archive == archive, _Q.source == source, _Q.state == COMMITTED)
    last = connection.execute(succeeded.order_by(_Q.acknowledged_by.desc()).limit(1)).one_or_none()
    latest = [_read(connection, archive, last)] if last is not None else []
    return [waiting for waiting in (*latest, *pending(connection, archive, source=source)) if not waiting.is_settled]


def of_block(connection: Connection, archive: str, block: str) -> Quorum | None:
    """Return the quorum of a block; None where it has none."""
    row = connection.execute(_select().where(_Q.archive == archive, _Q.block == block)).one_or_none()
    return _read(connection, archive, row) if row is not None else None


def failed(connection: Connection, archive: str, since: int, upto: int) -> frozenset[int]:
    """Return the indexes of entries with a failed quorum.

    :param since, upto: only these, both included.
    """
    query = sa.select(_Q.index).where(_Q.archive == archive, _Q.state == FAILED, _Q.index >= since, _Q.index <= upto)
    return frozenset(connection.execute(query).scalars())


def forget(connection: Connection, archive: str, start: int) -> None:
    """Remove the decided quorums of entries before the log's start.

    A quorum stays while the entry that takes its backup back is still in the log.
    """
    old = sa.select(_Q.index).where(_Q.archive == archive, _Q.state != PENDING, _Q.index < start, _Q.dropped_by < start)
    old = old.where(_Q.acknowledged_by < start)
    connection.execute(schema.votes.delete().where(_V.archive == archive, _V.index.in_(old)))
    connection.execute(schema.quorums.delete().where(_Q.archive == archive, _Q.index.in_(old)))


def _select() -> sa.Select[Any]:
    return sa.select(_Q.index, _Q.block, _Q.source, _Q.size, _Q.state, _Q.deadline, _Q.dropped_by, _Q.acknowledged_by)


def _read(connection: Connection, archive: str, row: Sequence[Any]) -> Quorum:
    index, block, source, size, state, deadline, dropped_by, acknowledged_by = row
    rows = counted(replicas(connection, archive), size) if acknowledged_by else []
    executed_by = tuple(row.name for row in executed(rows, acknowledged_by))
    votes = _votes(connection, archive, index, size)
    return Quorum(index, block, source, size, state, deadline, dropped_by, votes, acknowledged_by, executed_by)
