"""Explores what processes that share a coordination store can do to each other, with the shipped transactions.

Each transaction is one step, and so is each commit of a replica's own archive. Between any two steps of one process
others take theirs, a process may be killed, its answers may be lost, and time may pass. Every state that can be reached
so is looked at once. What the processes are about is said by those who use this: the log, or quorums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection, Table
from sqlalchemy.pool import StaticPool

from holdfast.common.errors import HoldfastError
from holdfast.replication.log import log, recovery_claim, replicas, schema
from holdfast.replication.log.replicas import Acting

ARCHIVE = "a"
LEASE = 10.0

_REPLICAS = (schema.archives, schema.replicas)


class Part:
    """The rows of one table. The same rows are the same object: so states are compared by what is not in the store.

    :ivar rows: as they are stored; `named`: by the names of their columns.
    """

    def __init__(self, table: Table, rows: tuple[tuple[Any, ...], ...]) -> None:
        self.rows = rows
        self.named = [dict(zip(table.c.keys(), row, strict=True)) for row in rows]


Rows = tuple[Part, ...]
"""The rows of each table."""


@dataclass(frozen=True)
class Process:
    """What a process that acts for a replica remembers.

    :param step: what it does next.
    :param epoch: in which it acts; `number`: an index that it was told, or has read.
    :param brings: of a recovery: the index and the contents of the other replica when it was read.
    """

    step: str = "idle"
    epoch: int = 0
    number: int = 0
    brings: tuple[Any, ...] = ()


@dataclass(frozen=True)
class World:
    """Everything at one moment.

    :param has: what the archive of each replica has; `index`: of the last entry that it says it has, -1 while it must
        not be read.
    :param at_work: the processes that execute the log; `recovers`: those that recover.
    :param left: how often each thing may still happen that nobody has to do.
    """

    rows: Rows
    now: float
    has: tuple[tuple[Any, ...], ...]
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


W = TypeVar("W", bound=World)


class Explorer(ABC, Generic[W]):
    """Looks at every state.

    :cvar tables: that a state consists of, each after those that it names; `modules`: whose clock is set.
    :ivar states: how many there were.
    """

    tables: ClassVar[tuple[Table, ...]]
    modules: ClassVar[tuple[ModuleType, ...]]

    def __init__(self, count: int) -> None:
        self.names = [f"r{number}" for number in range(count)]
        self._engine = sa.create_engine("sqlite://", poolclass=StaticPool)
        schema.metadata.create_all(self._engine)
        self._statements = [_statements(table) for table in self.tables]
        self._parts: dict[tuple[int, tuple[Any, ...]], Part] = {}
        self._none = tuple(self._part(at, ()) for at in range(len(self.tables)))
        self._now = 0.0
        self._known: dict[tuple[Any, ...], tuple[Rows, Any]] = {}
        self.states = 0

    def run(self, patch: pytest.MonkeyPatch, *, deep: bool = False) -> int:
        """Explore, and return the number of states.

        :param deep: go on from the newest state first: that finds most faults sooner, but after more steps.
        :raises ViolatedError: with the steps that led there.
        """
        for module in self.modules:
            patch.setattr(module, "clock", lambda connection: self._now)
        with self._engine.connect() as self._connection:
            begun = self.begun(self.transaction(self._none, self._registered)[0])
            came: dict[W, tuple[str, W | None]] = {begun: ("begun", None)}
            waiting = deque([begun])
            while waiting:
                world = waiting.pop() if deep else waiting.popleft()
                self.states += 1
                self._now = world.now
                _refuse(self.problems(world), world, came)
                for name, after in self.steps(world):
                    _refuse(self.faults(world, after), world, came, name)
                    if after not in came:
                        came[after] = (name, world)
                        waiting.append(after)
        self._engine.dispose()
        return self.states

    def _registered(self, connection: Connection) -> None:
        one = replicas.LogState(ARCHIVE, "shop", "s", head=0, start=1)
        replicas.register(connection, one, name=self.names[0], url=self.names[0], ends={}, streams={})
        for name in self.names[1:]:
            replicas.add(connection, ARCHIVE, name=name, url=name)
            connection.execute(schema.replicas.update().values(is_lost=False, lost_reason="", pointer=1))

    @abstractmethod
    def begun(self, rows: Rows) -> W:
        """Return the first state."""

    @abstractmethod
    def steps(self, world: W) -> Iterator[tuple[str, W]]:
        """Yield every step that can be taken, and where it leads."""

    @abstractmethod
    def problems(self, world: W) -> Iterator[str]:
        """Yield what must not be in any state."""

    def faults(self, world: W, after: W) -> Iterator[str]:
        """Yield what must not happen in any step."""
        yield from ()

    def transaction(
        self, rows: Rows, work: Callable[..., Any], *given: Any, of: tuple[Table, ...] = ()
    ) -> tuple[Rows, Any]:
        """Run a transaction on these rows, unless it was before; return those after it, and its result or its error.

        :param work: is called with the connection and what is given.
        :param of: the tables that it touches; none for all. It is not run again where nothing but others is different.
        """
        used = [not of or table in of for table in self.tables]
        seen = tuple(each if use else none for use, each, none in zip(used, rows, self._none, strict=True))
        key = (work, given, self._now, seen)
        if key not in self._known:
            self._known[key] = self._run(seen, work, given)
        after, result = self._known[key]
        if after == seen:
            return rows, result
        return tuple(new if use else old for use, old, new in zip(used, rows, after, strict=True)), result

    def _run(self, rows: Rows, work: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Rows, Any]:
        connection = self._connection
        with connection.begin() as transaction:
            # Most of the time would be spent here if these did not go to the driver itself.
            driver: Any = connection.connection.driver_connection
            for (insert, _), part in zip(self._statements, rows, strict=True):
                driver.executemany(insert, part.rows)
            try:
                result = work(connection, *given)
            except HoldfastError as error:
                result = error
            else:
                found = [tuple(driver.execute(select)) for _, select in self._statements]
                rows = tuple(self._part(at, each) for at, each in enumerate(found))
            transaction.rollback()
        return rows, result

    def _part(self, at: int, rows: tuple[tuple[Any, ...], ...]) -> Part:
        if (at, rows) not in self._parts:
            self._parts[at, rows] = Part(self.tables[at], rows)
        return self._parts[at, rows]

    def table(self, world: W, table: Table) -> list[dict[str, Any]]:
        """Return the rows of one table."""
        return world.rows[self.tables.index(table)].named

    def work(self, world: W, number: int, name: str) -> Iterator[tuple[str, W]]:
        """Yield what a process does that acts for a replica."""
        mine = world.at_work[number]

        def go(what: str, process: Process, **changes: Any) -> tuple[str, W]:
            return f"{name} {what}", replace(world, at_work=put(world.at_work, number, process), **changes)

        if mine.step != "idle" and world.may("kills"):
            yield go("is killed", Process(), left=world.spent("kills"))
        if mine.step == "idle":
            rows, got = self.transaction(world.rows, activate, name, of=_REPLICAS)
            if isinstance(got, Acting):
                yield go("activates", Process("acts", got.epoch), rows=rows)
        else:
            yield from self.act(world, number, Acting(ARCHIVE, name, mine.epoch), go)

    @abstractmethod
    def act(self, world: W, number: int, acting: Acting, go: Callable[..., tuple[str, W]]) -> Iterator[tuple[str, W]]:
        """Yield what a process does that has activated a replica: where its index is -1, that takes no entry.

        :param go: makes a step of its name, what the process remembers then, and what else changes.
        """

    def recover(self, world: W, number: int, name: str) -> Iterator[tuple[str, W]]:
        """Yield what a process does that makes a replica anew: as `recovery.recover` does, step by step."""
        mine = world.recovers[number]
        acting = Acting(ARCHIVE, name, mine.epoch)

        def go(what: str, process: Process, **changes: Any) -> tuple[str, W]:
            return f"recovery of {name} {what}", replace(
                world, recovers=put(world.recovers, number, process), **changes
            )

        if mine.step == "idle":
            for source in self.names:
                rows, got = self.transaction(world.rows, _begin_recovery, name, source, of=_REPLICAS)
                if isinstance(got, tuple):
                    there = self.names.index(source)
                    yield go(f"from {source} begins", Process("begun", got[0].epoch, there), rows=rows)
            return
        if world.may("kills"):
            yield go("is killed", Process(), left=world.spent("kills"))
        if mine.step == "read":
            rows, error = self.transaction(world.rows, _take_pointer, acting, mine.brings[0] + 1, of=_REPLICAS)
            yield go("takes the pointer", Process() if error else replace(mine, step="pointed"), rows=rows)
        elif mine.step == "adopted":
            rows, _ = self.transaction(world.rows, recovery_claim.finish, acting, of=_REPLICAS)
            yield go("ends", Process(), rows=rows)
        else:
            yield _on_archives(world, number, mine, go)


def _on_archives(world: W, number: int, mine: Process, go: Callable[..., tuple[str, W]]) -> tuple[str, W]:
    """Return the step of a recovery that is one of the archives' and not of the store's."""
    if mine.step == "begun":  # its archive may be read no more, and follows no entry
        return go("closes it", replace(mine, step="closed"), index=put(world.index, number, -1))
    if mine.step == "closed":
        there = world.index[mine.number]
        if there < 0:
            return go("finds nothing to read", Process())
        return go("reads", replace(mine, step="read", brings=(there, *world.has[mine.number])))
    index, *has = mine.brings
    now = {"index": put(world.index, number, index), "has": put(world.has, number, tuple(has))}
    return go("adopts", replace(mine, step="adopted"), **now)


def _refuse(problems: Iterator[str], world: W, came: dict[W, tuple[str, W | None]], *then: str) -> None:
    for problem in problems:
        steps = list(then)
        at: W | None = world
        while at is not None:
            name, at = came[at]
            steps.append(name)
        raise ViolatedError(f"{problem}, after: {', '.join([*reversed(steps[len(then) :]), *then])}")


def _statements(table: Table) -> tuple[str, str]:
    """Return what inserts rows into a table, and what reads them all."""
    key = ", ".join(f'"{column.name}"' for column in table.primary_key)
    return (
        f"insert into {table.name} values ({', '.join('?' * len(table.c))})",
        f"select * from {table.name} order by {key}",
    )


def put(values: tuple[Any, ...], number: int, value: Any) -> tuple[Any, ...]:
    """Return values of which one is another."""
    return (*values[:number], value, *values[number + 1 :])


def next_entry(connection: Connection, index: int) -> log.LogEntry | None:
    """Return an entry of the log; None where it has no more."""
    return next(iter(log.entries(connection, ARCHIVE, index, most=1)), None)


def activate(connection: Connection, name: str) -> Acting:
    """Begin to act for a replica, or go on doing so."""
    return replicas.activate(connection, ARCHIVE, name, lease=LEASE)


def _begin_recovery(connection: Connection, name: str, source: str) -> tuple[Acting, replicas.ReplicaRow]:
    return recovery_claim.claim(connection, ARCHIVE, name, source=source, lease=LEASE)


def _take_pointer(connection: Connection, acting: Acting, pointer: int) -> None:
    recovery_claim.take_pointer(connection, acting, pointer=pointer)
