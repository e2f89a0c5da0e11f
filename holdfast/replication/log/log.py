"""Update log of an archive: the changes that its replicas commit, in order. One transaction each.

An index is taken by adding one to the head in the transaction that appends: so there is no hole, and the order is that
of the commits, which a sequence of the database would not give. All refusals happen here: each replica executes every
entry that was appended.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import sqlalchemy as sa
from pydantic import Field

from holdfast.archive.format.block import Block  # noqa: TC001 - pydantic reads it at run time
from holdfast.archive.format.document import Document
from holdfast.archive.format.model import Adopted, Hold
from holdfast.archive.format.state import Change
from holdfast.common.errors import RefusedError
from holdfast.replication.log import line, quorum, schema
from holdfast.replication.log.errors import HeadMovedError, OldStoreError
from holdfast.replication.log.leader import check_leader
from holdfast.replication.log.replicas import guard, put_ends
from holdfast.replication.log.store import clock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from holdfast.archive.format.model import LogPlace
    from holdfast.archive.format.state import State
    from holdfast.replication.log.quorum import Quorum
    from holdfast.replication.log.replicas import Acting
    from holdfast.replication.log.settings import QuorumRequest

_E = schema.entries.c
_S = schema.sources.c

Ends = tuple[str, str]
"""Positions that a source's backups, and its changes, have reached; "" for none."""


DROP = "drop"
"""The kind of entries that take back a backup whose quorum has failed."""

MEMBERS = "members"
"""The kind of entries that add or remove replicas."""

ACKNOWLEDGED = "acknowledged"
"""The kind of entries by which the quorum of a backup has succeeded."""

FAILED = "failed"
"""The kind of commits that replicas make of such a backup's own entry when they come to it later."""


_COMMITTED = ("kind", "add", "remove", "holds", "released", "reason")
"""Fields that an entry and its commits have alike."""


class EntryChange(Document):
    """Change that an entry makes to every replica, with the fields of a commit.

    :param ends: of sources that go back by it.
    :param acknowledges: index of an entry whose quorum has succeeded; 0: none.
    :param members: URLs of all replicas from then on, by name; empty: they stay as they are.
    """

    kind: str
    add: tuple[Block, ...] = ()
    remove: tuple[str, ...] = ()
    holds: tuple[Hold, ...] = ()
    released: tuple[str, ...] = ()
    reason: str = ""
    ends: dict[str, Ends] = Field(default_factory=dict)
    acknowledges: int = 0
    members: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def of(cls, change: Change) -> EntryChange:
        """Return the part of a change that all replicas have."""
        return cls(**{name: getattr(change, name) for name in _COMMITTED})

    def change(self, state: State, log: LogPlace) -> Change:
        """Return a replica's commit; what its state never had is not taken back."""
        change = Change(log=log, **{name: getattr(self, name) for name in _COMMITTED})
        if not self.ends:
            return change
        return replace(
            change, remove=tuple(block for block in self.remove if block in state.blocks), adopted=self._adopted(state)
        )

    def _adopted(self, state: State) -> Adopted:
        ends, streams = dict(state.ends), dict(state.streams)
        for source, (end, stream) in self.ends.items():
            for positions, position in ((ends, end), (streams, stream)):
                positions.pop(source, None)
                if position:
                    positions[source] = position
        return Adopted(ends=ends, streams=streams)


@dataclass(frozen=True)
class Draft:
    """Entry that is to be appended.

    :param id: by it an append whose answer was lost is recognised.
    :param planned_at: index of the last entry known to its plan.
    :param expected, becomes: each source's ends before and after it.
    :param leader_epoch: of the leadership that it is made under; None: any replica may append it.
    """

    id: str
    change: EntryChange
    planned_at: int
    expected: Mapping[str, Ends] = field(default_factory=dict)
    becomes: Mapping[str, Ends] = field(default_factory=dict)
    leader_epoch: int | None = None
    quorum_request: QuorumRequest | None = None

    @property
    def only_adds(self) -> bool:
        """Return whether the entry may follow others unknown to its plan."""
        change = self.change
        return self.leader_epoch is None and not (change.remove or change.holds or change.released)


@dataclass(frozen=True)
class LogEntry:
    """Entry of the log; replicas pass it where its quorum has `failed`."""

    index: int
    id: str
    change: EntryChange
    appended_by: str
    appended_at: float
    failed: bool = False

    def commit(self, state: State, log: LogPlace) -> Change:
        """Return a replica's commit of the entry, empty where it has failed."""
        update: dict[str, object] = {"index": self.index, "entry": self.id, "passed": self.failed, "recovery": ""}
        if self.index >= log.reached:
            update |= {"reached": 0, "reached_entry": ""}
        if self.change.acknowledges:
            update["acknowledged"] = self.index
        if self.change.members:
            update["members"] = self.change.members
        log = log.model_copy(update=update)
        return Change(kind=FAILED, log=log) if self.failed else self.change.change(state, log)


def append(connection: Connection, acting: Acting, draft: Draft) -> int:
    """Append an entry, and return its index; one with the same id is not appended twice.

    :raises EpochOverError, LostReplicaError: as `replicas.guard` does; or another replica leads.
    :raises HeadMovedError: it has to be planned again.
    :raises RefusedError: another backup of the source, an abandoned or a pending block is in its way.
    :raises BusyError: the last backup of the source still waits for its quorum.
    """
    there = connection.execute(sa.select(_E.index).where(_E.entry == draft.id)).scalar_one_or_none()
    if there is not None:
        return int(there)
    if guard(connection, acting).leaves_by:
        raise RefusedError(f"replica {acting.name} is being removed: nothing is added through it any more")
    check_leader(connection, acting, draft.leader_epoch, removes=bool(draft.change.remove))
    _check_removed(connection, acting.archive, draft.change.remove)
    _check_abandoned(connection, acting.archive, draft.change.add)
    index = _next_index(connection, acting.archive)
    if index <= draft.planned_at:
        raise OldStoreError(
            f"the log ends at {index - 1}, and replica {acting.name} has executed {draft.planned_at}: the store was "
            "brought back from an older copy. See docs/runbooks/the-coordination-store-is-gone.md"
        )
    if not draft.only_adds and index != draft.planned_at + 1:
        raise HeadMovedError(f"the log has entries up to {index - 1}, and this was planned after {draft.planned_at}")
    _move_ends(connection, acting.archive, draft)
    for block in draft.change.add:
        _add_block(connection, acting.archive, block, index)
    if draft.quorum_request is not None:
        _begin_quorum(connection, acting.archive, index, draft, draft.quorum_request)
    _insert_entry(connection, acting.archive, index, draft.id, draft.change, by=acting.name)
    return index


def _next_index(connection: Connection, archive: str) -> int:
    c = schema.archives.c
    moved = schema.archives.update().where(c.archive == archive).values(head=c.head + 1).returning(c.head)
    return int(connection.execute(moved).scalar_one())


def _insert_entry(
    connection: Connection, archive: str, index: int, identity: str, change: EntryChange, *, by: str
) -> None:
    connection.execute(
        schema.entries.insert(),
        {
            "archive": archive,
            "index": index,
            "entry": identity,
            "kind": change.kind,
            "change": change.model_dump_json(exclude_defaults=True),
            "size": sum(block.size for block in change.add),
            "appended_by": by,
            "appended_at": clock(connection),
        },
    )
    line.note(connection, archive, index, identity)


def _begin_quorum(
    connection: Connection, archive: str, index: int, draft: Draft, quorum_request: QuorumRequest
) -> None:
    ((source, ends),) = draft.expected.items()
    (block,) = draft.change.add
    quorum.begin(connection, archive, index, block=block.id, source=source, ends=ends, quorum_request=quorum_request)


def fail_overdue(connection: Connection, archive: str, *, by: str, unread: Collection[str]) -> list[Quorum]:
    """Take back backups past their quorum's deadline, unless too few replicas can be read to know."""
    return [
        waiting
        for waiting in quorum.overdue(connection, archive)
        if not quorum.too_few_readable(connection, archive, waiting.size, unread)
        and _take_back(connection, archive, waiting, by)
    ]


def _take_back(connection: Connection, archive: str, failing: Quorum, by: str) -> bool:
    ends = quorum.ends_before(connection, archive, failing)
    reason = f"by its deadline {len(failing.votes)} of {failing.size} replicas had entry {failing.index}"
    drop = EntryChange(kind=DROP, remove=(failing.block,), ends={failing.source: ends}, reason=reason)
    return quorum.fail(connection, archive, failing, dropped_by=append_decision(connection, archive, drop, by=by))


def join(
    connection: Connection, acting: Acting, *, index: int, blocks: Collection[str], unread: Collection[str]
) -> list[int]:
    """Vote for the pending entries that a replica holds, and acknowledge those with enough votes.

    Success is an entry: only what replicas have executed is known when the store is put back from an older copy.

    :param index: of the last entry that the replica has; `blocks`: ids that it holds.
    :param unread: names of replicas that could not be read: where these are too many, it stays pending.
    """
    return [
        complete.index
        for complete in quorum.vote(connection, acting, index=index, blocks=blocks)
        if not quorum.too_few_readable(connection, acting.archive, complete.size, unread)
        and _acknowledge(connection, acting, complete)
    ]


def _acknowledge(connection: Connection, acting: Acting, complete: Quorum) -> bool:
    by = append_decision(
        connection, acting.archive, EntryChange(kind=ACKNOWLEDGED, acknowledges=complete.index), by=acting.name
    )
    return quorum.succeed(connection, acting.archive, complete.index, acknowledged_by=by)


def append_decision(connection: Connection, archive: str, change: EntryChange, *, by: str) -> int:
    """Append an entry that decides on earlier ones, in the transaction that decides; return its index."""
    index = _next_index(connection, archive)
    _insert_entry(connection, archive, index, str(uuid.uuid4()), change, by=by)
    return index


def _check_removed(connection: Connection, archive: str, blocks: Collection[str]) -> None:
    """Refuse to remove a block that is pending its quorum: it may be taken back yet."""
    for waiting in quorum.pending(connection, archive) if blocks else ():
        if waiting.block in blocks:
            raise RefusedError(
                f"the last backup of {waiting.source} still waits for its quorum, and was to be removed: "
                f"{waiting.describe()}. Nothing was changed: wait for it, then start again"
            )


def _check_abandoned(connection: Connection, archive: str, blocks: Iterable[Block]) -> None:
    """Refuse to add a block that a vacuum has abandoned: its files may be deleted."""
    c = schema.abandoned.c
    ids = [block.id for block in blocks]
    query = sa.select(c.block, c.replica).where(c.archive == archive, c.block.in_(ids)).limit(1)
    if (row := connection.execute(query).one_or_none()) is not None:
        raise RefusedError(
            f"block {row[0]} was abandoned by a vacuum of replica {row[1]}: this run was taken for dead and its files "
            "may be gone. Start it anew"
        )


def _move_ends(connection: Connection, archive: str, draft: Draft) -> None:
    for source, expected in draft.expected.items():
        quorum.check_settled(connection, archive, source)
        ends = ends_of(connection, archive, source)
        if ends != expected:
            raise RefusedError(
                f"another backup of {source} was appended meanwhile (its end is {ends[0] or 'none'}, this one started "
                f"from {expected[0] or 'none'}): nothing was added. Start a new backup."
            )
        put_ends(connection, archive, source, draft.becomes.get(source, expected))


def _add_block(connection: Connection, archive: str, block: Block, index: int) -> None:
    c = schema.blocks.c
    used = connection.execute(sa.select(c.index).where(c.archive == archive, c.block == block.id)).scalar_one_or_none()
    if used is not None:
        raise RefusedError(f"block {block.id} was added by entry {used} already")
    connection.execute(schema.blocks.insert(), {"archive": archive, "block": block.id, "index": index})


def ends_of(connection: Connection, archive: str, source: str) -> Ends:
    """Return the end positions of a source's backups and changes."""
    query = sa.select(_S.end_position, _S.stream_end).where(_S.archive == archive, _S.source == source)
    row = connection.execute(query).one_or_none()
    return (row[0], row[1]) if row else ("", "")


def check_settled_at(connection: Connection, archive: str, source: str, position: str) -> None:
    """Check that a source's changes up to a position are final, so that its server may forget them.

    :raises BusyError, RefusedError: they wait for their quorum; or were taken back.
    """
    quorum.check_settled(connection, archive, source)
    if (end := ends_of(connection, archive, source)[1]) != position:
        raise RefusedError(
            f"the changes of {source} end at {end or 'no position'} by the update log, and not at {position}: nothing "
            "was let go of. Start the backup again"
        )


def entries(connection: Connection, archive: str, since: int, *, most: int = 100) -> Sequence[LogEntry]:
    """Return entries in order, from an index on."""
    query = (
        sa.select(_E.index, _E.entry, _E.change, _E.appended_by, _E.appended_at)
        .where(_E.archive == archive, _E.index >= since)
        .order_by(_E.index)
        .limit(most)
    )
    rows = connection.execute(query).all()
    failed = quorum.failed(connection, archive, rows[0][0], rows[-1][0]) if rows else frozenset()
    return [
        LogEntry(row[0], row[1], EntryChange.model_validate_json(row[2]), row[3], row[4], failed=row[0] in failed)
        for row in rows
    ]


def note_missing(connection: Connection, archive: str, index: int, *, pause: float) -> float:
    """Record that no replica has an entry's files; return the seconds since when, without longer pauses."""
    now, m = clock(connection), schema.missing.c
    of_entry = (m.archive == archive, m.index == index)
    row = connection.execute(sa.select(m.since, m.seen).where(*of_entry)).one_or_none()
    since = row.since if row is not None and 0 <= now - row.seen <= pause else now
    connection.execute(schema.missing.delete().where(*of_entry))
    connection.execute(schema.missing.insert().values(archive=archive, index=index, since=since, seen=now))
    return float(now - since)


def clear_missing(connection: Connection, archive: str, *, first: int, last: int) -> None:
    """Remove the record of missing files from the entries first to last."""
    m = schema.missing.c
    connection.execute(schema.missing.delete().where(m.archive == archive, m.index.between(first, last)))


def missing_entries(connection: Connection, archive: str) -> Sequence[tuple[int, float]]:
    """Return indexes of entries with missing files, and since when (s since 1970)."""
    m = schema.missing.c
    query = sa.select(m.index, m.since).where(m.archive == archive).order_by(m.index)
    return [(row[0], row[1]) for row in connection.execute(query)]
