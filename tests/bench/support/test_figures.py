"""Series and ratios."""

from __future__ import annotations

import pytest

from bench.support.figures import Comparison, Series, collect, compare

SERIES = {"ours": Series("ours", (2.0, 4.0, 3.0)), "theirs": Series("theirs", (6.0, 8.0, 12.0))}


@pytest.mark.parametrize("seconds", [(), (1.0, 0.0), (-1.0,)])
def test_a_series_without_true_times_is_refused(seconds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="above zero"):
        Series("ours", seconds)


def test_a_ratio_is_of_the_best_times_and_tells_the_single_rounds() -> None:
    ratio = compare(Comparison("x", "ours", "theirs"), SERIES)
    assert (ratio.best, ratio.least, ratio.most) == (3.0, 2.0, 4.0)


@pytest.mark.parametrize(("target", "reached"), [(None, None), (3.0, True), (3.1, False)])
def test_a_target_is_judged_by_the_best_times(target: float | None, reached: bool | None) -> None:
    assert compare(Comparison("x", "ours", "theirs", target), SERIES).reached is reached


def test_a_round_that_lacks_a_way_is_named() -> None:
    with pytest.raises(ValueError, match="round 2 lacks a"):
        collect([{"a": 1.0, "b": 1.0}, {"b": 1.0}])
