"""The report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.backup_restore.hashes import Rate
from bench.backup_restore.results import Results, as_markdown
from bench.support.figures import Comparison, Series
from bench.support.memory import Memory

RESULTS = Results(
    date="2026-01-02 03:04 UTC",
    rows=1_000_000,
    size=100_000_000,
    machine={"Processor": "abacus, 2 cores"},
    settings={"fsync": "off"},
    loads=[0.1, 2.25],
    series={"ours": Series("ours", (2.0, 2.5)), "theirs": Series("theirs", (5.0, 4.0))},
    stored={"ours": 20_000_000},
    comparisons=[Comparison("ours against theirs", "ours", "theirs", 1.6)],
    memory=[Memory("backup of large values", 650_000_000, 64 << 20)],
    rates=[Rate("content hash by PostgreSQL", 1_200_000.0)],
    tables=7,
)


def test_the_report_shows_ratios_with_their_rounds_and_targets() -> None:
    assert "| ours against theirs | **2.00** | (1.60 to 2.50) | ≥ 1.6: yes |" in as_markdown(RESULTS, [])


def test_memory_may_be_600_mb_and_four_times_the_largest_value() -> None:
    large = RESULTS.memory[0]
    assert large.limit == 600_000_000 + (256 << 20)
    assert large.reached
    assert not replace(large, largest_value=0).reached


@pytest.mark.parametrize(
    ("target", "value", "missed"),
    [
        (1.6, 64 << 20, []),
        (2.1, 64 << 20, ["ours against theirs"]),
        (2.1, 0, ["ours against theirs", "memory of backup of large values"]),
    ],
)
def test_what_was_missed_is_named(target: float, value: int, missed: list[str]) -> None:
    results = replace(
        RESULTS,
        comparisons=[replace(RESULTS.comparisons[0], target=target)],
        memory=[replace(RESULTS.memory[0], largest_value=value)],
    )
    assert results.missed == missed
