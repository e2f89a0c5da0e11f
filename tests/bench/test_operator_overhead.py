"""The bench of an operator's overhead runs ours and a bare one, and says how many seconds lie between."""

from __future__ import annotations

import pytest

from bench.operator_overhead import BARE, OURS, Overhead, measure
from bench.support.figures import collect
from bench.support.timed import as_markdown


def found(ours: float, bare: float) -> Overhead:
    return Overhead("today", {"Processor": "x"}, [0.0], collect([{OURS: ours, BARE: bare}]))


def test_the_report_has_the_seconds_between_and_what_was_not_reached() -> None:
    assert "**Overhead: 0.50 s** of the best times; by round 0.50 s" in as_markdown(found(6.5, 6.0))
    assert found(6.5, 6.0).missed == []
    assert found(9.5, 6.0).missed == ["an overhead of less than 3 s"]


@pytest.mark.service
@pytest.mark.exhaustive
def test_both_operators_run_the_same_application() -> None:
    times = measure(1).series
    assert all(0 < times[name].best < 120 for name in (OURS, BARE))
