"""Events of assets: a summary, the archive's record, or nothing."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset

from holdfast.archive.archive import IDENTITY_KEY
from holdfast.config.archives_yaml import find_archive
from holdfast.storage import ObjectStore
from holdfast_airflow.asset_events import fill_events
from holdfast_airflow.assets import backups_of, record_of
from tests.support.replicas.replicated import Replicas

OTHER = Asset(name="other", uri="s3://other/record")


def filled(store: ObjectStore, *outlets: Any) -> dict[str, Any]:
    """Return what the events have, by the names of their assets."""
    events = {asset: SimpleNamespace(extra={"of": "before"}) for asset in outlets if isinstance(asset, Asset)}
    context: Any = {"outlet_events": events}
    summary = {"commit": 7}
    fill_events(outlets, context, summary=summary, archive=find_archive("shop"), store=store)
    summary["commit"] = 8
    return {asset.name: event.extra for asset, event in events.items()}


def test_assets_of_ours_get_the_summary_and_others_stay(store: ObjectStore) -> None:
    assert filled(store, backups_of("shop"), OTHER, "no asset") == {
        "holdfast_shop": {"commit": 7},
        "other": {"of": "before"},
    }


def test_a_record_is_that_of_the_archive_as_it_is(store: ObjectStore) -> None:
    [told] = filled(store, record_of("shop")).values()
    assert (told["name"], told["commits"]) == ("shop", 0)
    assert [each["source"] for each in told["sources"]] == ["shop_db"]
    assert "replication" not in told


def test_a_record_that_cannot_be_made_fails_no_task(store: ObjectStore, caplog: pytest.LogCaptureFixture) -> None:
    store.delete(IDENTITY_KEY)
    with caplog.at_level(logging.WARNING):
        assert filled(store, record_of("shop"), backups_of("shop")) == {
            "holdfast_shop:record": {"of": "before"},
            "holdfast_shop": {"commit": 7},
        }
    assert "the archive's record is not updated: " in caplog.text


def test_the_record_of_replicas_says_how_far_each_is(shop: Replicas) -> None:
    shop.back_up("near")
    [told] = filled(shop.place("near"), record_of("shop")).values()
    behind = {each["name"]: each["entries_behind"] for each in told["replication"]["replicas"]}
    assert behind == {"far": 1, "near": 0}


def test_where_nobody_says_where_the_log_is_nothing_is_told_of_it(shop: Replicas) -> None:
    config = find_archive("shop").model_copy(update={"store": None})
    event = SimpleNamespace(extra={})
    context: Any = {"outlet_events": {record_of("shop"): event}}
    fill_events([record_of("shop")], context, summary={}, archive=config, store=shop.place("near"))
    assert event.extra["replication"] is None
