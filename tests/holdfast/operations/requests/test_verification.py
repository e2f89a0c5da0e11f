"""The request for a verification: how much of it is done at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

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
