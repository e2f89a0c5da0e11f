"""A sample is of a metric in the catalogue, with its labels."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.metrics.catalogue import Sample, sample


def test_a_time_is_seconds_since_1970_and_a_truth_is_one() -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    made = sample("holdfast_source_last_full_timestamp_seconds", at, "shop", "shop_db")
    assert made.describe() == {
        "name": "holdfast_source_last_full_timestamp_seconds",
        "labels": {"archive": "shop", "source": "shop_db"},
        "value": 1772323200.0,
    }
    assert sample("holdfast_archive_up", True, "shop").value == 1.0


def test_what_is_not_in_the_catalogue_is_no_sample() -> None:
    with pytest.raises(ValueError, match="no metric holdfast_mood"):
        Sample("holdfast_mood", {}, 1.0)
    with pytest.raises(ValueError, match="holdfast_archive_up with the labels url"):
        Sample("holdfast_archive_up", {"url": "x"}, 1.0)
    with pytest.raises(ValueError, match="zip"):
        sample("holdfast_archive_up", 1)
