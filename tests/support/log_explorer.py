"""Explores what replicas, trimmings and recoveries can do to each other, with the shipped transactions.

Each transaction is one step, and so is each commit of a replica's own archive. Between any two steps of one process
others take theirs, a process may be killed, its answers may be lost, and time may pass until all leases are over. Every
state that can be reached so is looked at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.pool import StaticPool

from holdfast.errors import HoldfastError
from holdfast.replication import log, recovery, replicas, schema, trimming
from holdfast.replication.log import Draft, EntryChange
from holdfast.replication.replicas import Acting

ARCHIVE = "a"
LEASE = 10.0
_LONG = 1000.0
_TABLES = (schema.archives, schema.replicas, schema.entries, schema.blocks, schema.sources)

Rows = tuple[tuple[tuple[Any, ...], ...], ...]
"""The rows of each table."""


@dataclass(frozen=True)
class Process:
    """What a process that acts for a replica remembers.

    :param step: what it does next.
    :param epoch: in which it acts; `number`: an index that it was told, or has read.
    :param brings: of a recovery: the entries that the other replica had when it was read.
    """

    step: str = "idle"
    epoch: int = 0
    number: int = 0
    brings: tuple[int, ...] = ()


@dataclass(frozen=True)
class World:
    """Everything at one moment.

    :param has: from each replica to the entries that its archive has; `index`: to the last one that it says it has.
    :param at_work: the processes that execute the log; `recovers`: those that recover.
    :param left: how often each thing may still happen that nobody has to do.
    """

    rows: Rows
    now: float
    has: tuple[tuple[int, ...], ...]
    index: tuple[int, ...]
    at_work: tuple[Process, ...]
    recovers: tuple[Process, ...]
    left: tuple[tuple[str, int], ...]

    def may(self, what: str) -> bool:
        return dict(self.left)[what] > 0

    def spent(self, what: str) -> tuple[tuple[str, int], ...]:
        return tuple((name, count - (name == what)) for name, count in self.left)


class ViolatedError(AssertionError):
    """A state that must not be."""


Step = tuple[str, World]


@dataclass(frozen=True)
class Bounds:
    """How much happens at most.

    :param min_keep, max_keep: of trimmings.
    """

    replicas: int = 2
    appends: int = 2
    trims: int = 1
    kills: int = 1
    pauses: int = 1
    rots: int = 1
    removals: int = 0
    min_keep: int = 0
    max_keep: int = 0


class Explorer:
    """Looks at every state.

    :ivar states: how many there were.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._names = [f"r{number}" for number in range(bounds.replicas)]
        self._engine = sa.create_engine("sqlite://", poolclass=StaticPool)
        schema.metadata.create_all(self._engine)
        self._now = 0.0
        self._known: dict[tuple[Any, ...], tuple[Rows, Any]] = {}
        self.states = 0

    def run(self, patch: pytest.MonkeyPatch) -> int:
        """Explore, and return the number of states.

        :raises ViolatedError: with the steps that led there.
        """
        for module in (replicas, log, trimming, recovery):
            patch.setattr(module, "clock", lambda connection: self._now)
        with self._engine.connect() as connection:
            begun = self._begun(connection)
            came: dict[World, tuple[str, World | None]] = {begun: ("begun", None)}
            waiting = deque([begun])
            while waiting:
                world = waiting.popleft()
                self.states += 1
                self._check(world, came)
                for name, after in self._steps(connection, world):
                    if after not in came:
                        came[after] = (name, world)
                        waiting.append(after)
        self._engine.dispose()
        return self.states

    def _begun(self, connection: Connection) -> World:
        def begin(c: Connection) -> None:
            one = replicas.LogState(ARCHIVE, "shop", "s", head=0, start=1)
            replicas.register(c, one, name=self._names[0], url=self._names[0], ends={}, streams={})
            for name in self._names[1:]:
                replicas.add(c, ARCHIVE, name=name, url=name)
                c.execute(schema.replicas.update().values(is_lost=False, lost_reason="", pointer=1))

        rows, _ = self._transaction(connection, ((),) * len(_TABLES), begin)
        count = self._bounds.replicas
        left = {
            name: getattr(self._bounds, name) for name in ("appends", "trims", "kills", "pauses", "rots", "removals")
        }
        idle = (Process(),) * count
        return World(rows, 0.0, ((),) * count, (0,) * count, idle, idle, tuple(left.items()))

    def _transaction(
        self, connection: Connection, rows: Rows, work: Callable[..., Any], *given: Any
    ) -> tuple[Rows, Any]:
        """Run a transaction on these rows, unless it was before; return those after it, and its result or its error.

        :param work: is called with the connection and what is given.
        """
        key = (work, given, self._now, rows)
        if key not in self._known:
            self._known[key] = self._run(connection, rows, work, given)
        return self._known[key]

    def _run(
        self, connection: Connection, rows: Rows, work: Callable[..., Any], given: tuple[Any, ...]
    ) -> tuple[Rows, Any]:
        with connection.begin() as transaction:
            for table, those in zip(_TABLES, rows, strict=True):
                if those:
                    names = table.c.keys()
                    connection.execute(table.insert(), [dict(zip(names, row, strict=True)) for row in those])
            try:
                result = work(connection, *given)
            except HoldfastError as error:
                result = error
            else:
                found = (connection.execute(sa.select(table).order_by(*table.primary_key)) for table in _TABLES)
                rows = tuple(tuple(tuple(row) for row in each) for each in found)
            transaction.rollback()
        return rows, result

    def _steps(self, connection: Connection, world: World) -> Iterator[Step]:
        self._now = world.now
        for number, name in enumerate(self._names):
            yield from self._work(connection, world, number, name)
            yield from self._recover(connection, world, number, name)
            if world.may("rots"):
                rows, error = self._transaction(connection, world.rows, replicas.mark_lost, ARCHIVE, name, "rot")
                if error is None:
                    yield f"{name} rots", replace(world, rows=rows, left=world.spent("rots"))
        if world.may("trims"):
            bounds = self._bounds
            rows, _ = self._transaction(
                connection, world.rows, trimming.move_start, ARCHIVE, bounds.min_keep, bounds.max_keep
            )
            if rows != world.rows:
                yield "trim", replace(world, rows=rows, left=world.spent("trims"))
        if world.may("pauses"):
            yield "leases end", replace(world, now=world.now + _LONG, left=world.spent("pauses"))

    def _work(self, connection: Connection, world: World, number: int, name: str) -> Iterator[Step]:
        """Yield what a process does that executes the log, and appends to it."""
        mine = world.at_work[number]
        acting = Acting(ARCHIVE, name, mine.epoch)

        def go(what: str, process: Process, **changes: Any) -> Step:
            at_work = _put(world.at_work, number, process)
            return f"{name} {what}", replace(world, at_work=at_work, **changes)

        if mine.step != "idle" and world.may("kills"):
            yield go("is killed", Process(), left=world.spent("kills"))
        if mine.step == "idle":
            rows, got = self._transaction(connection, world.rows, _activate, name)
            if isinstance(got, Acting):
                yield go("activates", Process("acts", got.epoch), rows=rows)
        elif mine.step == "acts" and world.index[number] >= 0:  # else it is being made anew, and takes no entry
            yield from self._act(connection, world, number, acting, go)
        elif mine.step == "told":
            rows, error = self._transaction(connection, world.rows, _move_pointer, acting, mine.number)
            yield go("moves its pointer", Process() if error else replace(mine, step="acts", number=0), rows=rows)

    def _act(
        self, connection: Connection, world: World, number: int, acting: Acting, go: Callable[..., Step]
    ) -> Iterator[Step]:
        mine, here = world.at_work[number], world.index[number]
        _, found = self._transaction(connection, world.rows, _next_entry, here + 1)
        if found:
            if found[0].index != here + 1:
                raise ViolatedError(f"{acting.name} is at {here}, and the log has {found[0].index} next")
            yield go("commits", replace(mine, step="told", number=here + 1), **_executed(world, number, here + 1))
        elif world.may("appends"):
            yield from self._append(connection, world, acting, go, mine)
        if here:  # one that was killed between its commit and this goes on with it
            rows, _ = self._transaction(connection, world.rows, _move_pointer, acting, here)
            if rows != world.rows:
                yield go("moves its pointer on", mine, rows=rows)

    def _append(
        self, connection: Connection, world: World, acting: Acting, go: Callable[..., Step], mine: Process
    ) -> Iterator[Step]:
        left = world.spent("appends")
        number = dict(left)["appends"]
        rows, got = self._transaction(connection, world.rows, _append, acting, number)
        if isinstance(got, int):
            row = _rows(world)[acting.name]
            if row["is_lost"] or row["epoch"] != acting.epoch:
                raise ViolatedError(f"{acting.name} appends in epoch {acting.epoch}, and the store says {row}")
            yield go("appends", mine, rows=rows, left=left)
            again, index = self._transaction(connection, rows, _append, acting, number)
            if (again, index) != (rows, got):
                raise ViolatedError("an append whose answer was lost was repeated, and made another entry")
        elif isinstance(got, HoldfastError):
            yield go("may not append", Process())

    def _recover(self, connection: Connection, world: World, number: int, name: str) -> Iterator[Step]:
        """Yield what a process does that makes a replica anew: as `recovery.recover` does, step by step."""
        mine = world.recovers[number]
        acting = Acting(ARCHIVE, name, mine.epoch)

        def go(what: str, process: Process, **changes: Any) -> Step:
            return f"recovery of {name} {what}", replace(
                world, recovers=_put(world.recovers, number, process), **changes
            )

        def run(work: Callable[..., Any], *given: Any) -> tuple[Rows, Any]:
            return self._transaction(connection, world.rows, work, *given)

        if mine.step == "idle":
            rows, got = run(_begin_recovery, name)
            if isinstance(got, tuple):
                source = self._names.index(got[1].name)
                yield go("begins", Process("begun", got[0].epoch, source), rows=rows)
            return
        if world.may("kills"):
            yield go("is killed", Process(), left=world.spent("kills"))
        if mine.step == "read":
            rows, error = run(_take_pointer, acting, mine.brings[0] + 1)
            yield go("takes the pointer", Process() if error else replace(mine, step="pointed"), rows=rows)
        elif mine.step == "adopted":
            rows, _ = run(recovery.finish, acting)
            yield go("ends", Process(), rows=rows)
        else:
            yield _on_archives(world, number, mine, go)

    def _check(self, world: World, came: dict[World, tuple[str, World | None]]) -> None:
        for problem in _problems(world):
            steps = []
            at: World | None = world
            while at is not None:
                name, at = came[at]
                steps.append(name)
            raise ViolatedError(f"{problem}, after: {', '.join(reversed(steps))}")


def _on_archives(world: World, number: int, mine: Process, go: Callable[..., Step]) -> Step:
    """Return the step of a recovery that is one of the archives' and not of the store's."""
    if mine.step == "begun":  # its archive may be read no more, and follows no entry
        return go("closes it", replace(mine, step="closed"), index=_put(world.index, number, -1))
    if mine.step == "closed":
        there = world.index[mine.number]
        if there < 0:
            return go("finds nothing to read", Process())
        return go("reads", replace(mine, step="read", brings=(there, *world.has[mine.number])))
    index, *has = mine.brings
    now = {"index": _put(world.index, number, index), "has": _put(world.has, number, tuple(has))}
    return go("adopts", replace(mine, step="adopted"), **now)


def _activate(connection: Connection, name: str) -> Acting:
    return replicas.activate(connection, ARCHIVE, name, lease=LEASE)


def _next_entry(connection: Connection, index: int) -> Sequence[log.Entry]:
    return log.entries(connection, ARCHIVE, index, most=1)


def _move_pointer(connection: Connection, acting: Acting, done: int) -> None:
    replicas.move_pointer(connection, acting, done=done)


def _append(connection: Connection, acting: Acting, number: int) -> int:
    return log.append(connection, acting, Draft(f"entry-{number}", EntryChange(kind="backup"), planned_at=0))


def _begin_recovery(connection: Connection, name: str) -> tuple[Acting, replicas.ReplicaRow]:
    return recovery.begin(connection, ARCHIVE, name, lease=LEASE)


def _take_pointer(connection: Connection, acting: Acting, pointer: int) -> None:
    recovery.take_pointer(connection, acting, pointer=pointer)


def _put(values: tuple[Any, ...], number: int, value: Any) -> tuple[Any, ...]:
    return (*values[:number], value, *values[number + 1 :])


def _executed(world: World, number: int, entry: int) -> dict[str, Any]:
    return {
        "index": _put(world.index, number, entry),
        "has": _put(world.has, number, (*world.has[number], entry)),
    }


def _rows(world: World) -> dict[str, dict[str, Any]]:
    """Return what the store says of each replica."""
    names = schema.replicas.c.keys()
    found = (dict(zip(names, row, strict=True)) for row in world.rows[1])
    return {row["name"]: row for row in found}


def _problems(world: World) -> Iterator[str]:
    """Yield what must not be in any state."""
    (head, start), *_ = [(row[3], row[4]) for row in world.rows[0]]
    entries = [row[1] for row in world.rows[2]]
    if entries != list(range(1, head + 1)):  # nothing deletes them here
        yield f"the log has {entries}, and its head is {head}"
    good = []
    for number, row in enumerate(_rows(world).values()):
        if row["recovers_from"] and row["active_until"] > world.now and row["pointer"] < start:
            yield f"{row['name']} is being recovered at {row['pointer']}, and the log begins at {start}"
        if row["is_lost"]:
            continue
        good.append(row["name"])
        pointer, index, has = row["pointer"], world.index[number], world.has[number]
        if pointer < start:
            yield f"{row['name']} needs entry {pointer}, and the log begins at {start}"
        if not 0 <= pointer - 1 <= index:
            yield f"{row['name']} says that it has entry {pointer - 1}, and its archive ends at {index}"
        if list(has) != list(range(1, index + 1)):
            yield f"the archive of {row['name']} says it is at {index}, and has {has}"
    if not good:
        yield "all replicas are lost"


def explored(bounds: Bounds, patch: pytest.MonkeyPatch) -> int:
    """Explore, and return how many states there were."""
    return Explorer(bounds).run(patch)


__all__: Sequence[str] = ("Bounds", "ViolatedError", "explored")
