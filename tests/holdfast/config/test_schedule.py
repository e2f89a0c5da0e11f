"""Which schedules are taken, against what Airflow makes of them."""

from __future__ import annotations

import pytest
from airflow.sdk import CronDataIntervalTimetable

from holdfast.config.schedule import PRESETS, schedule_problem


@pytest.mark.parametrize(
    "text",
    [
        *sorted(PRESETS),
        *(
            "0 2 * * *",
            "*/15 * * * *",
            "0 0 1,15 * mon-fri",
            "5-55/10 0-23/2 1-31 JAN-dec 0-7",
            "0 0 L * *",
            "0 0 * * 5#2",
        ),
    ],
)
def test_schedules_are_taken(text: str) -> None:
    assert schedule_problem(text) == ""
    if not text.startswith("@"):
        CronDataIntervalTimetable(text, timezone="UTC")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("@dayly", "there is no preset @dayly; there are @continuous, @daily"),
        ("daily", "write five fields"),
        ("", "write five fields"),
        ("0 2 * *", "write five fields"),
        ("0 2 * * * *", "write five fields"),
        ("60 2 * * *", "'60' is no minute"),
        ("0 24 * * *", "'24' is no hour"),
        ("0 2 0 * *", "'0' is no day of the month"),
        ("0 2 * 13 *", "'13' is no month"),
        ("0 2 * * 8", "'8' is no day of the week"),
        ("0 2 * * moo", "'moo' is no day of the week"),
        ("*/0 * * * *", "'*/0' is no minute"),
        ("1;2 * * * *", "'1;2' is no minute"),
    ],
)
def test_what_is_no_schedule_is_refused_with_what_to_write(text: str, why: str) -> None:
    assert schedule_problem(text).startswith(why)
