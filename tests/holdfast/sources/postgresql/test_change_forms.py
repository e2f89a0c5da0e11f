"""Which recorded column each announced one is; the real server's tables are in test_changes.py."""

from __future__ import annotations

import pytest

from holdfast.sources.postgresql.change_forms import _aligned


@pytest.mark.parametrize(
    ("scores", "slots"),
    [
        ([], []),
        ([[]], [None]),
        ([[4, 0], [0, 4]], [0, 1]),
        ([[0, 4], [4, 0]], [None, None]),  # they would cross, and either is as good
        ([[1, 4]], [1]),
        ([[4, 4]], [None]),  # dropped, and made anew under its old name
        ([[4, 0, 0], [0, 0, 0], [0, 0, 4]], [0, None, 2]),
        ([[4, 0, 0], [0, 1, 1], [0, 0, 4]], [0, 1, 2]),
    ],
)
def test_a_column_has_the_number_that_all_best_readings_give_it(
    scores: list[list[int]], slots: list[int | None]
) -> None:
    assert _aligned(scores) == slots
