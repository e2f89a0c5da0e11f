"""What the maintenance of idle archives comes to."""

from __future__ import annotations

import pytest

from bench.idle import OPERATIONS, PLAIN, Idle
from bench.support.figures import Series


def idle(seconds: float, interval_s: float) -> Idle:
    """Return what is found where each run takes so many CPU seconds."""
    series = {name: Series(name, (seconds, 2 * seconds)) for name in (PLAIN, *OPERATIONS)}
    return Idle("today", {}, [1.0], series, 4, interval_s)


def test_the_share_of_a_core_is_that_of_all_runs_of_a_day() -> None:
    # 200 archives, 24 runs of the reaper and one of each of the others a day.
    assert idle(1.0, 3600.0).share == pytest.approx(200 * (24 + 3) / 86_400)
    assert idle(1.0, 3600.0).missed == ["200 idle archives under 5% of one core"]
    assert idle(0.5, 3600.0).missed == []
    assert "of which 3.1% would be taken by as many tasks that do nothing" in idle(0.5, 3600.0).details
