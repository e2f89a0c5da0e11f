"""Choice of the moment that a drill restores."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from holdfast.archive.format.document import iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.archive.history.coverage import CoveredRange

_STEP = timedelta(microseconds=1)


def whole_intervals(found: Sequence[CoveredRange]) -> list[CoveredRange]:
    """Return the intervals of the whole database.

    Where only chosen tables were ever backed up, return all intervals.
    """
    return [interval for interval in found if interval.whole] or list(found)


def choose_moment(found: Sequence[CoveredRange], seed: int) -> str:
    """Return a random restorable moment, in the form that restores take.

    Every microsecond of all intervals is as likely as any other. Where no interval lasts, since there are only full
    backups, each of them is as likely as any other.

    :param found: the intervals of one source; at least one.
    """
    random = Random(seed)  # noqa: S311 - nobody gains by guessing it
    whole = whole_intervals(found)
    lengths = [(interval.end - interval.start) // _STEP for interval in whole]
    if not any(lengths):
        return f"commit:{random.choice(whole).placed.number}"
    left = random.randrange(sum(lengths))
    for interval, length in zip(whole, lengths, strict=True):
        if left < length:
            return iso(interval.start + left * _STEP)
        left -= length
    raise AssertionError("what is left is less than the sum of all lengths")
