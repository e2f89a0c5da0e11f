"""Explores what replicas, trimmings and recoveries can do to each other, until the leases are over or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from sqlalchemy import Connection

from holdfast.common.errors import HoldfastError
from holdfast.replication.log import log, recovery_claim, replicas, schema, trimming
from holdfast.replication.log.log import Draft, EntryChange
from holdfast.replication.log.replicas import Acting
from tests.support.replicas.exploring import ARCHIVE, Explorer, Process, Rows, ViolatedError, World, next_entry, put

_LONG = 1000.0

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
    min_keep: int = 0
    max_keep: int = 0


class LogExplorer(Explorer[World]):
    """Looks at every state of the log; an archive has the indexes of the entries that it has committed."""

    tables = (schema.archives, schema.replicas, schema.entries, schema.line, schema.blocks, schema.sources)
    modules = (replicas, log, trimming, recovery_claim)

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds.replicas)
        self._bounds = bounds

    def begun(self, rows: Rows) -> World:
        count = self._bounds.replicas
        left = {name: getattr(self._bounds, name) for name in ("appends", "trims", "kills", "pauses", "rots")}
        idle = (Process(),) * count
        return World(rows, 0.0, ((),) * count, (0,) * count, idle, idle, tuple(left.items()))

    def steps(self, world: World) -> Iterator[Step]:
        for number, name in enumerate(self.names):
            yield from self.work(world, number, name)
            yield from self.recover(world, number, name)
            if world.may("rots"):
                rows, error = self.transaction(world.rows, replicas.mark_lost, ARCHIVE, name, "rot")
                if error is None:
                    yield f"{name} rots", replace(world, rows=rows, left=world.spent("rots"))
        if world.may("trims"):
            bounds = self._bounds
            rows, _ = self.transaction(world.rows, trimming.move_start, ARCHIVE, bounds.min_keep, bounds.max_keep)
            if rows != world.rows:
                yield "trim", replace(world, rows=rows, left=world.spent("trims"))
        if world.may("pauses"):
            yield "leases end", replace(world, now=world.now + _LONG, left=world.spent("pauses"))

    def act(self, world: World, number: int, acting: Acting, go: Callable[..., Step]) -> Iterator[Step]:
        mine, here = world.at_work[number], world.index[number]
        if mine.step == "told":
            rows, error = self.transaction(world.rows, _move_pointer, acting, mine.number)
            yield go("moves its pointer", Process() if error else replace(mine, step="acts", number=0), rows=rows)
            return
        if here < 0:
            return
        _, found = self.transaction(world.rows, next_entry, here + 1)
        if found:
            if found.index != here + 1:
                raise ViolatedError(f"{acting.name} is at {here}, and the log has {found.index} next")
            yield go("commits", replace(mine, step="told", number=here + 1), **_executed(world, number, here + 1))
        elif world.may("appends"):
            yield from self._append(world, acting, go, mine)
        if here:  # one that was killed between its commit and this goes on with it
            rows, _ = self.transaction(world.rows, _move_pointer, acting, here)
            if rows != world.rows:
                yield go("moves its pointer on", mine, rows=rows)

    def _append(self, world: World, acting: Acting, go: Callable[..., Step], mine: Process) -> Iterator[Step]:
        left = world.spent("appends")
        number = dict(left)["appends"]
        rows, got = self.transaction(world.rows, _append, acting, number)
        if isinstance(got, int):
            row = next(each for each in self.table(world, schema.replicas) if each["name"] == acting.name)
            if row["is_lost"] or row["epoch"] != acting.epoch:
                raise ViolatedError(f"{acting.name} appends in epoch {acting.epoch}, and the store says {row}")
            yield go("appends", mine, rows=rows, left=left)
            again, index = self.transaction(rows, _append, acting, number)
            if (again, index) != (rows, got):
                raise ViolatedError("an append whose answer was lost was repeated, and made another entry")
        elif isinstance(got, HoldfastError):
            yield go("may not append", Process())

    def problems(self, world: World) -> Iterator[str]:
        (archive,) = self.table(world, schema.archives)
        head, start = archive["head"], archive["log_start"]
        entries = [each["index"] for each in self.table(world, schema.entries)]
        if entries != list(range(1, head + 1)):  # nothing deletes them here
            yield f"the log has {entries}, and its head is {head}"
        good = []
        for number, row in enumerate(self.table(world, schema.replicas)):
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


def _move_pointer(connection: Connection, acting: Acting, done: int) -> None:
    replicas.move_pointer(connection, acting, index=done)


def _append(connection: Connection, acting: Acting, number: int) -> int:
    return log.append(connection, acting, Draft(f"entry-{number}", EntryChange(kind="backup"), planned_at=0))


def _executed(world: World, number: int, entry: int) -> dict[str, Any]:
    return {
        "index": put(world.index, number, entry),
        "has": put(world.has, number, (*world.has[number], entry)),
    }


def explored(bounds: Bounds, patch: pytest.MonkeyPatch, *, deep: bool = False) -> int:
    """Explore, and return how many states there were."""
    return LogExplorer(bounds).run(patch, deep=deep)
