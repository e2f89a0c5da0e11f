"""Quorums of backups: a backup with one counts only once several replicas hold it. One transaction each.

The entry is appended as *pending*. Each replica that has executed it votes, and the vote that completes the number has
it succeed, with an entry that says so. After its deadline, the first process that sees it has it fail, with an entry
that removes its block. Either happens once, and for all. It is *settled* once as many replicas have executed its
success: an older copy of the store is then contradicted by them.

A retry differs from its first try by where the source's backups end: a second backup from the same position is refused
while the first one is pending, and after it has succeeded; a failure goes back to that position.

Source of the rules: the paper that docs/replication.md names. `specs/Quorum.tla` checks them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from holdfast.common.errors import BusyError, UsageError
from holdfast.replication.log import schema
from holdfast.replication.log.replicas import change_archive, guard, put_ends, replicas
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

    :param deadline: seconds since 1970 by the store's clock.
    :param dropped_by, acknowledged_by: entry that takes the backup back, or says that it has succeeded; 0: none.
    :param votes: names of the replicas that hold it; `executed_by`: of those that have executed its success.
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

    An added one counts once as many counting replicas before it have executed its addition: else an older copy of the
    store could have the same index acknowledged by the others alone.
    """
    counting: list[ReplicaRow] = []
    for row in sorted(present(rows), key=lambda row: row.joined_by):
        older = [other for other in counting if other.joined_by < row.joined_by]
        if len(executed(older, row.joined_by)) >= min(size, len(older)):
            counting.append(row)
    return sorted(counting, key=lambda row: row.name)


def present(rows: Iterable[ReplicaRow]) -> list[ReplicaRow]:
    """Return the replicas that were ever recovered: an addition that was stopped takes away no tolerance.

    The entry that ends their recovery contradicts a copy of the store in which they are still new.
    """
    return [row for row in rows if not row.is_joining]


def executed(rows: Iterable[ReplicaRow], index: int) -> list[ReplicaRow]:
    """Return those that have executed an entry and are not lost."""
    return [row for row in rows if row.pointer > index and not row.is_lost]


def check_possible(connection: Connection, archive: str, size: int) -> None:
    """Check that an archive has enough replicas for a quorum."""
    there = replicas(connection, archive)
    if size > len(there):
        raise UsageError(
            f"a quorum of {size} cannot be: the archive has {len(there)} replicas "
            f"({', '.join(row.name for row in there)}). Add one, or ask for less"
        )


def check_reachable(connection: Connection, archive: str, size: int, unread: Collection[str]) -> None:
    """Check that enough replicas could hold a backup now, or raise BusyError."""
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

    Any quorum has one of n - size + 1 replicas: one that was read contradicts a store that forgot its success.
    One whose votes do not count yet is among the n: they may count in a store of which this is an older copy.
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
    """Check that no backup of a source is pending (BusyError): the next would build on it."""
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
    """Record in the append's transaction that an entry counts only with a quorum; `ends`: before it."""
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
    """Vote for the pending entries that a replica holds; return the quorums complete by that."""
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
    """Have a quorum succeed by an entry; return False where it is decided already."""
    if not _decide(connection, archive, index, COMMITTED, acknowledged_by=acknowledged_by):
        return False
    change_archive(connection, archive, quorum_index=acknowledged_by)
    return True


def _vote(connection: Connection, acting: Acting, index: int) -> None:
    mine = (_V.archive == acting.archive, _V.index == index, _V.replica == acting.name)
    changed = connection.execute(schema.votes.update().where(*mine).values(epoch=acting.epoch))
    if not changed.rowcount:
        row = {"archive": acting.archive, "index": index, "replica": acting.name, "epoch": acting.epoch}
        connection.execute(schema.votes.insert(), row)


def _votes(connection: Connection, archive: str, index: int, size: int) -> tuple[str, ...]:
    """Return the replicas with a vote of their present epoch that are not lost and count."""
    query = sa.select(_V.replica, _V.epoch).where(_V.archive == archive, _V.index == index)
    given = {(row[0], row[1]) for row in connection.execute(query)}
    rows = counted(replicas(connection, archive), size)
    return tuple(row.name for row in rows if not row.is_lost and (row.name, row.epoch) in given)


def _decide(connection: Connection, archive: str, index: int, state: str, **more: object) -> bool:
    """Decide a pending quorum; return False where it is decided already."""
    updated = connection.execute(
        schema.quorums.update()
        .where(_Q.archive == archive, _Q.index == index, _Q.state == PENDING)
        .values(state=state, **more)
    )
    return bool(updated.rowcount)


def fail(connection: Connection, archive: str, quorum: Quorum, *, dropped_by: int) -> bool:
    """Fail a quorum, and set its source's ends back; return False where it is decided already.

    No replica's pointer moves: those that have not come to the entry yet are still to pass it.
    """
    if not _decide(connection, archive, quorum.index, FAILED, dropped_by=dropped_by):
        return False
    put_ends(connection, archive, quorum.source, ends_before(connection, archive, quorum))
    return True


def give_up(connection: Connection, archive: str, index: int, *, block: str, source: str, dropped_by: int) -> None:
    """Mark an entry as failed, whatever its quorum was, by the entry that takes it back."""
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
    """Return a source's ends (backups, changes) before the entry of a quorum."""
    query = sa.select(_Q.end_before, _Q.stream_before).where(_Q.archive == archive, _Q.index == quorum.index)
    end, stream = connection.execute(query).one()
    return end, stream


def pending(connection: Connection, archive: str, *, source: str | None = None) -> list[Quorum]:
    """Return the undecided quorums by index, of one source or of all."""
    query = _select().where(_Q.archive == archive, _Q.state == PENDING).order_by(_Q.index)
    if source is not None:
        query = query.where(_Q.source == source)
    return [_read(connection, archive, row) for row in connection.execute(query).all()]


def unsettled(connection: Connection, archive: str, source: str) -> list[Quorum]:
    """Return a source's quorums that are pending, or whose success too few replicas have executed.

    Of the successful ones the last is looked at: who has executed that has executed the others.
    """
    succeeded = _select().where(_Q.archive == archive, _Q.source == source, _Q.state == COMMITTED)
    last = connection.execute(succeeded.order_by(_Q.acknowledged_by.desc()).limit(1)).one_or_none()
    latest = [_read(connection, archive, last)] if last is not None else []
    return [waiting for waiting in (*latest, *pending(connection, archive, source=source)) if not waiting.is_settled]


def of_block(connection: Connection, archive: str, block: str) -> Quorum | None:
    """Return the quorum of a block, if it has one."""
    row = connection.execute(_select().where(_Q.archive == archive, _Q.block == block)).one_or_none()
    return _read(connection, archive, row) if row is not None else None


def failed(connection: Connection, archive: str, since: int, upto: int) -> frozenset[int]:
    """Return the indexes of failed entries, from `since` to `upto`."""
    query = sa.select(_Q.index).where(_Q.archive == archive, _Q.state == FAILED, _Q.index >= since, _Q.index <= upto)
    return frozenset(connection.execute(query).scalars())


def forget(connection: Connection, archive: str, start: int) -> None:
    """Remove decided quorums before the log's start; one stays while the entry that decides it does."""
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
