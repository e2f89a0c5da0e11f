"""Pauses between two looks of a trigger."""

from __future__ import annotations

from typing import Final

SHORTEST_S: Final = 1.0

_SHARE: Final = 4


def next_pause(waited_s: float, longest_s: float) -> float:
    """Return the seconds until the next look.

    They are a quarter of the time that was waited so far: what ends soon is noticed soon, and a long wait costs few
    looks.

    :param longest_s: they are no more than that, also where that is less than a second.
    """
    return min(longest_s, max(SHORTEST_S, waited_s / _SHARE))
