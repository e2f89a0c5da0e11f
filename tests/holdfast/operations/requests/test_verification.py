"""The request for a verification: how much of it is done at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast.common.errors import UsageError
from holdfast.operations.requests.verification import VerificationRequest


@pytest.mark.parametrize(
    ("given", "bounds"),
    [
        ({}, {"budget": None, "within": None}),
        ({"budget": "100GB"}, {"budget": 100_000_000_000, "within": None}),
        ({"budget": "2h", "within": "30d"}, {"budget": timedelta(hours=2), "within": timedelta(days=30)}),
        ({"budget": "", "within": "None"}, {"budget": None, "within": None}),
    ],
)
def test_its_bounds_are_bytes_or_lengths_of_time(given: dict[str, str], bounds: dict[str, Any]) -> None:
    assert VerificationRequest.given(**given).bounds == bounds


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"budget": "much"}, "^cannot read 'much' as a budget"),
        ({"within": "100GB"}, "^cannot read '100GB' as a length of time"),
    ],
)
def test_a_value_that_nobody_can_read_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        VerificationRequest.given(**given)
