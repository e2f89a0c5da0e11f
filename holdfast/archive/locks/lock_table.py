"""Table of the locks that each operation takes, and the only place that says so.

Locks are taken in the order of `ORDER` and released in reverse, so two operations can never wait for each other in a
circle. Where two archives are involved, one's own locks come before the source's; a copy takes those of the lower
archive id first. Whoever reads the archive opens it after its locks are held. Long readers hold `history` in chunks, so
that a vacuum that waits never keeps a restore out for long. Operations that are still to come are in it: they must fit
in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from holdfast.common.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from locking import LockInfo

Mode = Literal["R", "W"]

ORDER = ("format", "maintenance", "ingest", "replica", "history")
"""The order in which an archive's locks are taken. `ingest` stands for one lock per source."""


@dataclass(frozen=True)
class Need:
    """Mode and extent of one lock that an operation takes."""

    mode: Mode  # R shared, W exclusive
    # Empty where it is held from start to end; else for which part of the work, in words. Such a lock is taken by the
    # operation itself when it comes to that part.
    when: str = ""
    skips: bool = False  # where the lock is busy, that part is left out

    def __str__(self) -> str:
        return f"{self.mode}, {self.when}" if self.when else self.mode


@dataclass(frozen=True)
class Row:
    """Operations that take the same locks, as a row of the table."""

    operations: tuple[str, ...]
    needs: Mapping[str, Need]  # from names in `ORDER` to how that lock is taken
    notes: Mapping[str, str] = field(default_factory=dict)  # from an operation to what its name does not say by itself


_R = Need("R")
_W = Need("W")

TABLE: tuple[Row, ...] = (
    Row(("backup",), {"format": _R, "ingest": _W}),
    Row(
        ("restore", "query", "drill", "export", "source-side"),
        {"format": _R, "history": _R},
        {"source-side": "of a copy, a sync or a recovery, on the archive that is read"},
    ),
    Row(("verification",), {"format": _R, "history": Need("R", "for some files at a time")}),
    Row(("hold",), {"format": _R}),
    Row(("compaction", "truncation"), {"format": _R, "maintenance": _W}),
    Row(
        ("vacuum",),
        {
            "format": _R,
            "maintenance": _W,
            "ingest": Need("W", "skipped where busy, until `abandoned` is committed", skips=True),
            "replica": _W,
            "history": Need("W", "only for a batch of deletes, at most 30 s"),
        },
        {"vacuum": "the only operation that deletes data files"},
    ),
    Row(("repair",), {"format": _R, "maintenance": _W, "ingest": _W}, {"repair": "verification with repair"}),
    Row(
        ("migration", "key-rotation", "signing", "joining", "voiding"),
        {"format": _W},
        {
            "signing": "every object is signed from then on, or by another key",
            "joining": "an archive becomes the first replica of its update log",
            "voiding": "a number that holds no commit is given up",
        },
    ),
    Row(
        ("sync", "copy", "rebuilding"),
        {"format": _R, "replica": _W},
        {
            "sync": "executing log entries on a replica, also by a backup, compaction or truncation made through it",
            "copy": "on the target of a copy",
            "rebuilding": "the update log is made anew from the replicas; on each of them",
        },
    ),
    Row(
        ("recovery",),
        {"format": _W, "maintenance": _W, "replica": _W, "history": _W},
        {"recovery": "of a lost replica, on that replica"},
    ),
)
"""The whole table."""

PLANS: Mapping[str, Mapping[str, Need]] = {name: row.needs for row in TABLE for name in row.operations}
"""From each operation to its locks."""

TO_COME = frozenset({"export"})  # the operations that no release has yet
AVAILABLE = frozenset(PLANS) - TO_COME  # the operations that this release has


@dataclass(frozen=True)
class PlannedLock:
    """Lock that an operation takes; `when` and `skips` as in `Need`."""

    resource: str
    mode: Mode
    when: str = ""
    skips: bool = False

    def is_blocked_by(self, info: LockInfo) -> bool:
        if info.resource != self.resource or info.state in ("dead", "expired"):
            return False
        return info.state == "foreign" or "W" in (self.mode, info.mode)


def full_plan(operation: str, sources: Iterable[str] = ()) -> tuple[PlannedLock, ...]:
    """Return all locks of an operation in the order to take them; `sources`: those written to."""
    needs = PLANS.get(operation)
    if needs is None:
        raise UsageError(f"no lock plan for {operation!r}; known: {', '.join(sorted(PLANS))}")
    planned: list[PlannedLock] = []
    for name in ORDER:
        if name in needs:
            resources = [f"ingest-{source}" for source in sorted(sources)] if name == "ingest" else [name]
            planned += [
                PlannedLock(resource, needs[name].mode, needs[name].when, needs[name].skips) for resource in resources
            ]
    return tuple(planned)


def plan(operation: str, sources: Sequence[str] = ()) -> tuple[PlannedLock, ...]:
    """Return an operation's locks from start to end; parameters and errors as for `full_plan`."""
    return tuple(planned for planned in full_plan(operation, sources) if not planned.when)
