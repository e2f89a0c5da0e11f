"""The list of all metrics follows Prometheus' rules for names."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from holdfast.metrics.catalogue import CATALOGUE, CataloguedMetric, Sample, sample

UNITS = ("_bytes", "_seconds", "_timestamp_seconds")
COUNTS = (
    "_info", "_up", "_lost", "_active", "_met", "_format", "_commits", "_blocks", "_files", "_rows", "_backups",
    "_tables", "_holds", "_locks", "_entry", "_entries", "_pending", "_failed", "_exit_code",
)  # fmt: skip


@pytest.mark.parametrize("metric", CATALOGUE.values(), ids=lambda metric: metric.name)
def test_a_metric_has_a_prefix_a_unit_labels_and_one_clause_of_help(metric: CataloguedMetric) -> None:
    assert re.fullmatch(r"holdfast_[a-z]+(_[a-z]+)*", metric.name)
    assert not metric.name.endswith("_total")  # which is of counters, and ours are gauges
    assert metric.name.endswith(UNITS + COUNTS)
    assert all(re.fullmatch(r"[a-z]+", label) for label in metric.labels)
    assert {"instance", "job"}.isdisjoint(metric.labels)  # which Prometheus gives itself
    assert metric.help
    assert not metric.help.endswith(".")


def test_times_are_told_as_such_so_that_an_age_grows_where_nobody_collects() -> None:
    since = [name for name in CATALOGUE if re.search(r"_(since|oldest|ended|created|from|to|last_full)_", name)]
    assert len(since) >= 7
    assert all(name.endswith("_timestamp_seconds") for name in since)


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
