"""Words of sentences that several packages write."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.common.words import human_span, named


def test_many_names_are_cut_short() -> None:
    assert named([str(number) for number in range(22)]).endswith("18, 19 and 2 more")


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (-5, "0 s"),
        (119, "119 s"),
        (timedelta(minutes=2), "2 min"),
        (timedelta(minutes=119), "119 min"),
        (timedelta(hours=2), "2 h"),
        (timedelta(hours=47), "47 h"),
        (2 * 86400, "2 d"),
    ],
)
def test_a_length_of_time_has_the_unit_that_fits(span: timedelta | float, words: str) -> None:
    assert human_span(span) == words
