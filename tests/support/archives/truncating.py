"""What can be restored of made-up backups, before and after some of them are removed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.archive.history.coverage import to_of
from holdfast.archive.history.recovery_target import RecoveryTarget
from tests.support.archives.backups import Backups


def content(made: Backups, moment: RecoveryTarget) -> dict[str, Any]:
    """Return what a restore of a moment would use and bring back; commits may be named anew by joins."""
    parts = moment.tables()
    return {
        "position": moment.position,
        "rows": made.restored(moment),
        "stale": {name: each.stale for name, each in parts.items() if each.stale},
        "since": {name: each.since for name, each in parts.items()},
        "schema": (moment.schema.head.schema_version, to_of(moment.schema.head), moment.approximate),
        "sequences": to_of(moment.sequences.head),
        "before": moment.sequences_before and to_of(moment.sequences_before.head),
    }


def positions(made: Backups) -> Iterator[tuple[Any, int]]:
    """Yield positions of every interval: the ends of backups, and where something was written in between."""
    for interval in made.intervals():
        inside = {to_of(placed.head) for placed in (*interval.snapshots, *interval.chain.changes)}
        inside |= {each.lsn + 8 for each in made.log}
        yield from ((interval, each) for each in sorted(inside) if interval.first <= each <= interval.last)


def check_truth(made: Backups) -> None:
    """Whatever can be restored is what the source held then."""
    for interval, position in positions(made):
        moment = made.at(interval, position)
        found = made.restored(moment)
        assert found == made.truth(moment, found)
