"""Explores what backups with a quorum, failures, retries, losses, recoveries and sequential reads do to each other.

A process that acts for a replica commits entries by what they are to the shipped code; of one that may fail since it
was read, reading and committing are two steps. It may append a backup at any time from where its archive stands: also
where the log has gone on, as it may have since the backup was planned. In the beginning, all replicas are active.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

from bench.support.blocks import make_block
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.format.model import LogPlace
from holdfast.archive.format.state import State
from holdfast.common.errors import HoldfastError
from holdfast.replication.log import leader, line, log, quorum, recovery_claim, replicas, schema, sequential
from holdfast.replication.log.log import Draft, EntryChange
from holdfast.replication.log.replicas import Acting
from holdfast.replication.log.settings import QuorumRequest
from tests.support.replicas.exploring import ARCHIVE, LEASE, Explorer, Process, Rows, World, activate, next_entry, put

_DEADLINE = 100.0
"""Longer than a lease: each of the two may be over without the other one."""


@dataclass(frozen=True)
class Bounds:
    """How much happens at most.

    :param backups: that each source wants; `appends`: of all sources together, tries that fail included.
    :param sizes: of the quorums of each source.
    :param leases, deadlines: so often all that run at a time end; `losses`: of one replica at a time.
    """

    replicas: int = 2
    sizes: tuple[int, ...] = (2,)
    backups: int = 2
    appends: int = 2
    deadlines: int = 0
    leases: int = 0
    losses: int = 0
    kills: int = 0
    reads: int = 0


@dataclass(frozen=True)
class Reading:
    """A sequential read whose archive is open.

    :param index: of the commit that was opened, and the blocks that it has.
    :param owed: blocks that it has to show: those that had succeeded, and those that the read before has shown.
    """

    name: str
    index: int
    blocks: tuple[str, ...]
    owed: frozenset[str]


@dataclass(frozen=True)
class QuorumWorld(World):
    """Everything at one moment; an archive has the ids of its blocks, and the ends of its sources.

    :param reading: the sequential read that is under way.
    :param shown: what the last one has shown; `missed`: what it should have, too.
    """

    reading: Reading | None = None
    shown: frozenset[str] = frozenset()
    missed: frozenset[str] = frozenset()


_LOG = (schema.entries, schema.quorums)
_ASK = (schema.archives, schema.replicas, schema.line, *_LOG)
_NOTE = (schema.archives, schema.replicas, schema.line, *_LOG, schema.votes)

Step = tuple[str, QuorumWorld]
Has = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]


class QuorumExplorer(Explorer[QuorumWorld]):
    """Looks at every state of the quorums."""

    tables = (
        schema.archives, schema.replicas, schema.entries, schema.line, schema.blocks, schema.sources, schema.quorums,
        schema.votes,
    )  # fmt: skip
    modules = (replicas, log, quorum, recovery_claim, leader)

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds.replicas)
        self._bounds = bounds
        self._sources = {f"s{number}": size for number, size in enumerate(bounds.sizes)}
        self._executed: dict[tuple[Has, str, bool], Has] = {}

    def begun(self, rows: Rows) -> QuorumWorld:
        count = self._bounds.replicas
        for name in self.names:
            rows, _ = self.transaction(rows, activate, name)
        names = ("appends", "deadlines", "leases", "losses", "kills", "reads")
        left = tuple((name, getattr(self._bounds, name)) for name in names)
        active, idle = (Process("acts", epoch=1),) * count, (Process(),) * count
        return QuorumWorld(rows, 0.0, (((), ()),) * count, (0,) * count, active, idle, left)

    def steps(self, world: QuorumWorld) -> Iterator[Step]:
        all_well = not any(row["is_lost"] for row in self.table(world, schema.replicas))
        for number, name in enumerate(self.names):
            yield from self.work(world, number, name)
            yield from self.recover(world, number, name)
            if world.may("losses") and all_well:
                rows, _ = self.transaction(world.rows, replicas.mark_lost, ARCHIVE, name, "rot")
                yield f"{name} is lost", replace(world, rows=rows, left=world.spent("losses"))
            if world.reading is None and world.may("reads") and world.index[number] >= 0:
                yield self._open(world, number, name)
        if world.reading is not None:
            yield from self._ask(world, world.reading)
        rows, _ = self.transaction(world.rows, _fail_overdue)
        if rows != world.rows:
            yield "what is overdue fails", replace(world, rows=rows)
        for what, seconds in (("leases", LEASE), ("deadlines", _DEADLINE)):
            if world.may(what):
                yield f"{what} end", replace(world, now=world.now + seconds, left=world.spent(what))

    def act(self, world: QuorumWorld, number: int, acting: Acting, go: Callable[..., Step]) -> Iterator[Step]:
        mine, here = world.at_work[number], world.index[number]
        if here < 0:
            return
        if mine.step == "read":
            done = self._commit(world, number, mine.number, failed=mine.brings[0])
            yield go("commits", replace(mine, step="acts", number=0, brings=()), **done)
            return
        _, found = self.transaction(world.rows, next_entry, here + 1, of=_LOG)
        if found and here + 1 in {each["index"] for each in self._in(world, quorum.PENDING)}:
            yield go("reads the log", replace(mine, step="read", number=here + 1, brings=(found.failed,)))
        elif found:
            yield go("commits", mine, **self._commit(world, number, here + 1, failed=found.failed))
        if world.may("appends"):
            for source in self._sources:
                yield from self._append(world, number, acting, source, go)
        rows, error = self.transaction(world.rows, _note, acting, here, world.has[number][0], of=_NOTE)
        if error is not None:
            yield go("has to stop", Process())
        elif rows != world.rows:
            yield go("says how far it is", mine, rows=rows)

    def _commit(self, world: QuorumWorld, number: int, index: int, *, failed: bool) -> dict[str, Any]:
        """Return what executing an entry changes.

        :param failed: as it was when the entry was read.
        """
        if world.index[number] != index - 1:
            return {}  # it is no longer what follows
        _, found = self.transaction(world.rows, next_entry, index, of=_LOG)
        has = self._after(world.has[number], replace(found, failed=failed))
        return {"index": put(world.index, number, index), "has": put(world.has, number, has)}

    def _append(
        self, world: QuorumWorld, number: int, acting: Acting, source: str, go: Callable[..., Step]
    ) -> Iterator[Step]:
        was = dict(world.has[number][1]).get(source, "")
        at = int(was.removeprefix("0/") or "0", 16)
        if at == self._bounds.backups:
            return
        left = world.spent("appends")
        given = (acting, source, was, f"0/{at + 1:X}", dict(left)["appends"], self._sources[source])
        rows, got = self.transaction(world.rows, _append, *given)
        if isinstance(got, int):
            yield go(f"appends a backup of {source}", world.at_work[number], rows=rows, left=left)

    def _open(self, world: QuorumWorld, number: int, name: str) -> Step:
        owed = world.shown.union(each["block"] for each in self._in(world, quorum.COMMITTED))
        reading = Reading(name, world.index[number], world.has[number][0], owed)
        return f"a reader opens {name}", replace(world, reading=reading, left=world.spent("reads"))

    def _ask(self, world: QuorumWorld, reading: Reading) -> Iterator[Step]:
        _, answer = self.transaction(world.rows, _ask, reading.name, reading.index, of=_ASK)
        if isinstance(answer, HoldfastError):
            yield f"the reader is refused: {answer}", replace(world, reading=None)
        else:
            shown = frozenset(reading.blocks) - answer.hidden
            yield (
                f"the reader is shown {sorted(shown)}",
                replace(world, reading=None, shown=shown, missed=reading.owed - shown),
            )

    def _in(self, world: QuorumWorld, *states: str) -> list[dict[str, Any]]:
        return [each for each in self.table(world, schema.quorums) if each["state"] in states]

    def _holders(self, world: QuorumWorld, block: str) -> list[str]:
        """Return the replicas that are not lost and hold a block."""
        rows = self.table(world, schema.replicas)
        return [row["name"] for row, has in zip(rows, world.has, strict=True) if not row["is_lost"] and block in has[0]]

    def faults(self, world: QuorumWorld, after: QuorumWorld) -> Iterator[str]:
        if after.rows is world.rows:
            return
        done = {each["index"] for each in self._in(world, quorum.COMMITTED)}
        for each in self._in(after, quorum.COMMITTED):
            holders = self._holders(after, each["block"])
            if each["index"] not in done and len(holders) < each["size"]:
                yield f"entry {each['index']} succeeds, and only {holders} hold its block"
        if done - {each["index"] for each in self._in(after, quorum.COMMITTED)}:
            yield "what has succeeded has failed"

    def problems(self, world: QuorumWorld) -> Iterator[str]:
        (archive,) = self.table(world, schema.archives)
        entries = [each["index"] for each in self.table(world, schema.entries)]
        if entries != list(range(1, archive["head"] + 1)):
            yield f"the log has {entries}, and its head is {archive['head']}"
        for number, row in enumerate(self.table(world, schema.replicas)):
            if not row["is_lost"] and not 0 < row["pointer"] <= world.index[number] + 1:
                yield f"{row['name']} executes {row['pointer']} next, and its archive ends at {world.index[number]}"
        yield from self._unlike(world)
        for source in self._sources:
            yield from _gaps([each for each in self._in(world, quorum.COMMITTED) if each["source"] == source])
        lost = sum(row["is_lost"] for row in self.table(world, schema.replicas))
        for each in self._in(world, quorum.COMMITTED):
            if len(holders := self._holders(world, each["block"])) < each["size"] - lost:
                yield f"entry {each['index']} has succeeded, {lost} are lost, and of the others only {holders} hold it"
        if world.missed:
            yield f"a sequential read does not show {sorted(world.missed)}"

    def _unlike(self, world: QuorumWorld) -> Iterator[str]:
        """Yield which replicas would not have what counts, or may yet, once they had executed the rest of the log."""
        blocks = sorted(each["block"] for each in self._in(world, quorum.COMMITTED, quorum.PENDING))
        ends = {row["source"]: row["end_position"] for row in self.table(world, schema.sources) if row["end_position"]}
        for number, name in enumerate(self.names):
            if (here := world.index[number]) >= 0 and self._end(world, world.has[number], here) != (
                tuple(blocks),
                tuple(sorted(ends.items())),
            ):
                yield f"{name} would come to have {self._end(world, world.has[number], here)}, not {blocks}, {ends}"

    def _end(self, world: QuorumWorld, has: Has, here: int) -> Has:
        """Return what an archive has that executes the rest of the log."""
        while (found := self.transaction(world.rows, next_entry, here + 1, of=_LOG)[1]) is not None:
            has, here = self._after(has, found), found.index
        return has

    def _after(self, has: Has, entry: log.LogEntry) -> Has:
        """Return what an archive has once it has committed an entry."""
        key = (has, entry.id, entry.failed)
        if key not in self._executed:
            self._executed[key] = _after(has, entry)
        return self._executed[key]


def _gaps(succeeded: list[dict[str, Any]]) -> Iterator[str]:
    """Yield where the backups of a source that have succeeded do not follow on each other."""
    at = ""
    for each in succeeded:
        if each["end_before"] != at:
            yield f"of {each['source']}, {each['block']} follows on {each['end_before']!r}, and {at!r} is there"
        at = _to(each["block"])


def _to(block: str) -> str:
    """Return what a backup has reached, which its block's id says."""
    return block.split(" ")[1]


def _append(connection: Connection, acting: Acting, source: str, was: str, becomes: str, number: int, size: int) -> int:
    """Append a backup, twice as if the first answer was lost: its number makes each try another one."""
    block = make_block(identity=f"{source} {becomes} {number}", source=source, position=becomes)
    draft = Draft(
        block.id,
        EntryChange(kind="backup", add=(block,)),
        planned_at=0,
        expected={source: (was, "")},
        becomes={source: (becomes, "")},
        quorum_request=QuorumRequest(size, _DEADLINE),
    )
    index = log.append(connection, acting, draft)
    if log.append(connection, acting, draft) != index:
        raise AssertionError("an append whose answer was lost was repeated, and made another entry")
    return index


def _note(connection: Connection, acting: Acting, index: int, blocks: tuple[str, ...]) -> None:
    """Do what a replica does once it has committed an entry."""
    if index:
        replicas.move_pointer(connection, acting, index=index)
    log.join(connection, acting, index=index, blocks=blocks, unread=())
    _name_decisions(connection)


def _fail_overdue(connection: Connection) -> None:
    log.fail_overdue(connection, ARCHIVE, by="r0", unread=())
    _name_decisions(connection)


def _name_decisions(connection: Connection) -> None:
    """Give entries that decide other ids than the drawn ones: so the same state is the same each time."""
    q = schema.quorums.c
    for what, by in (("drop", q.dropped_by), ("success", q.acknowledged_by)):
        for index, block in connection.execute(sa.select(by, q.block).where(by > 0)).all():
            for table in (schema.entries, schema.line):
                connection.execute(
                    table.update().where(table.c.index == index).values(entry=f"{what} of {block}, {index}")
                )


def _ask(connection: Connection, name: str, index: int) -> sequential.SequentialAnswer:
    entry = line.entry_id(connection, ARCHIVE, index) or ""
    place = LogPlace(store="s", replica=name, index=index, entry=entry)
    return sequential._ask(connection, ARCHIVE, name, place, {}, "the store")


def _after(has: Has, entry: log.LogEntry) -> Has:
    """Return what an archive has once it has committed an entry."""
    blocks, ends = list(has[0]), dict(has[1])
    state = State(blocks=MappingProxyType(dict.fromkeys(blocks, _PLACED)), ends=ends)
    change = entry.commit(state, LogPlace(store="s", replica="r", index=entry.index, entry=entry.id))
    for block in change.add:
        blocks.append(block.id)
        ends[block.source.name] = block.covers.to_position
    if change.adopted is not None:
        ends = change.adopted.ends
    return tuple(sorted(set(blocks) - set(change.remove))), tuple(sorted(ends.items()))


_PLACED = Placed(make_block(), 1)


def explored(bounds: Bounds, patch: pytest.MonkeyPatch, *, deep: bool = False) -> int:
    """Explore, and return how many states there were."""
    return QuorumExplorer(bounds).run(patch, deep=deep)
