"""What the maintenance of idle archives comes to."""

from __future__ import annotations

import pytest

from bench.idle import OPERATIONS, PLAIN, Idle, report
from bench.support.airflow_parts import Taken
from bench.support.figures import Series


def idle(seconds: float, interval_s: float) -> Idle:
    """Return what is found where each run takes so many CPU seconds."""
    series = {name: Series(name, (seconds, 2 * seconds)) for name in (PLAIN, *OPERATIONS)}
    a_day = {**dict.fromkeys(OPERATIONS, 1.0), "lock_reaper": 86_400 / interval_s}
    parts = {"scheduler": Taken(0.1, 200_000_000), "triggerer": Taken(0.05, 100_000_000)}
    return Idle("today", {}, [1.0], series, 200, 3, 2201, 4, 40.0, parts, a_day)


def test_the_share_of_a_core_is_that_of_all_runs_of_a_day() -> None:
    # 200 archives, 24 runs of the reaper and one of each of the others a day.
    assert idle(1.0, 3600.0).share == pytest.approx(200 * (24 + 3) / 86_400)
    assert idle(1.0, 3600.0).missed == ["200 idle archives under 5% of one core"]
    assert idle(0.5, 3600.0).missed == []
    assert "of which 3.1% would be taken by as many tasks that do nothing" in idle(0.5, 3600.0).details
    assert "Judging an `rpo` of 24h of each: 0.1% more" in idle(0.5, 3600.0).details


def test_the_report_says_what_each_part_takes_at_rest() -> None:
    assert report(idle(1.0, 3600.0)).endswith(
        "| part | of one core | memory |\n| --- | --- | --- |\n"
        "| scheduler | 10.0% | 200 MB |\n| triggerer | 5.0% | 100 MB |\n| all | 15.0% | 300 MB |\n"
    )
