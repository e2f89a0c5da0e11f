"""Shares of rows."""

from __future__ import annotations

import pytest

from holdfast.archive.scan.table_history import ALL, Share


@pytest.mark.parametrize(("rows", "count"), [(10, 3), (2, 5), (0, 2), (7, 1)])
def test_shares_follow_each_other_and_together_are_all_rows(rows: int, count: int) -> None:
    bounds = [Share(number, count).bounds(rows) for number in range(count)]
    assert [row for first, behind in bounds for row in range(first, behind)] == list(range(rows))
    assert ALL.bounds(rows) == (0, rows)
