"""Which locks each operation takes: the one place that says so.

Locks are taken in the order of `ORDER` and released in reverse, so two operations can never wait for
each other in a circle. Whoever reads the archive opens it after its locks are held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

Mode = Literal["R", "W"]

ORDER = ("format", "maintenance", "ingest", "replica", "history")
"""The order in which an archive's locks are taken. `ingest` stands for one lock per source."""

PLANS: dict[str, dict[str, Mode]] = {
    "backup": {"format": "R", "ingest": "W"},
    "restore": {"format": "R", "history": "R"},
    "verify": {"format": "R", "history": "R"},
}
"""Operation to lock to mode (R shared, W exclusive)."""


@dataclass(frozen=True)
class PlannedLock:
    """One lock an operation takes."""

    resource: str
    mode: Mode


def plan(operation: str, sources: Sequence[str] = ()) -> tuple[PlannedLock, ...]:
    """Return the locks of an operation, in the order to take them.

    :param sources: the sources written to; their `ingest-<source>` locks come in order of name.
    :raises UsageError: unknown operation.
    """
    modes = PLANS.get(operation)
    if modes is None:
        raise UsageError(f"no lock plan for {operation!r}; known: {', '.join(sorted(PLANS))}")
    planned: list[PlannedLock] = []
    for name in ORDER:
        if name not in modes:
            continue
        resources = [f"ingest-{source}" for source in sorted(sources)] if name == "ingest" else [name]
        planned += [PlannedLock(resource, modes[name]) for resource in resources]
    return tuple(planned)
