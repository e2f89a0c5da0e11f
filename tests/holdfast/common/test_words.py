"""Words of sentences that several packages write."""

from __future__ import annotations

from holdfast.common.words import named


def test_many_names_are_cut_short() -> None:
    assert named([str(number) for number in range(22)]).endswith("18, 19 and 2 more")
