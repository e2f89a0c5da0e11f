"""The report of the locks' bench."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.locks.contention import Told
from bench.locks.crowd import Crowd
from bench.locks.results import Latency, LockResults, Race, as_markdown

TIMES = {"request": 0.02, "acquire": 0.1, "check": 0.02, "renew": 0.04, "release": 0.02}
OURS = Told(waits=[1.0, 2.0, 6.0], writers_waits=[6.0], requests=30, seconds=6.0)
PAPERS = Told(waits=[1.0, 3.0, 12.0], writers_waits=[12.0], requests=15, seconds=12.0)

RESULTS = LockResults(
    date="2026-01-02 03:04 UTC",
    machine={"Processor": "abacus, 2 cores"},
    loads=[0.5, 1.0],
    latencies=[Latency("folder, ordered", 0.02, [TIMES, {**TIMES, "acquire": 0.12}], wanted=True)],
    races=[Race("3 writers", "memory", [{"ours": OURS, "paper": PAPERS}])],
    crowds=[Crowd(seconds=9.0, waits=[1.0, 5.0], pages=[2, 3], checks=[0.05], check_pages=[1])],
)


def test_the_report_shows_steps_as_multiples_of_a_request() -> None:
    text = as_markdown(RESULTS, ["Everybody had a turn."])
    assert "| folder, ordered | 20 ms | 20.0 | **5.0** (5.0 to 6.0) | **1.0** (1.0 to 1.0) |" in text
    assert "| acquire ≤ 5.5: yes |" in text
    assert "- Everybody had a turn." in text


def test_the_report_shows_both_ways_of_a_contest() -> None:
    text = as_markdown(RESULTS, [])
    assert "| 3 writers | memory | **2.00** | (2.00 to 2.00) | yes |" in text
    assert "| ours | 0.5 to 0.5 | 6.0 to 6.0 | 6.0 to 6.0 | 3.0 to 3.0 | 10 to 10 | 0 | 0 |" in text
    assert "| the paper's | 0.2 to 0.2 | 12.0 to 12.0 | 12.0 to 12.0 | 4.0 to 4.0 | 5 to 5 | 0 | 0 |" in text


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        (
            replace(RESULTS, latencies=[Latency("s3", 0.1, [{**TIMES, "acquire": 0.12}], wanted=True)]),
            "acquire in s3, 100 ms",
        ),
        (
            replace(RESULTS, races=[Race("c", "s", [{"ours": replace(OURS, refused=1), "paper": PAPERS}])]),
            "every turn of c in s",
        ),
        (
            replace(RESULTS, races=[Race("c", "s", [{"ours": replace(OURS, met=1), "paper": PAPERS}])]),
            "every turn of c in s",
        ),
        (replace(RESULTS, crowds=[replace(RESULTS.crowds[0], pages=[4])]), "4 pages for a reader"),
    ],
)
def test_what_was_missed_is_named(changed: LockResults, missed: str) -> None:
    assert changed.missed == [missed]
