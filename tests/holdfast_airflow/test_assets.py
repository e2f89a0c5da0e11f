"""Addresses of an archive's assets: each its own, and told from those of others."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.openlineage.utils.utils import translate_airflow_asset
from airflow.sdk import Asset
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

from holdfast.archive.archive import IDENTITY_KEY
from holdfast.config.archives_yaml import find_archive
from holdfast.operations.archive_context import ArchiveContext
from holdfast.storage import ObjectStore
from holdfast_airflow.assets import (
    backups_of,
    drills_of,
    fill_events,
    is_record,
    record_of,
    restores_of,
    verifications_of,
)
from tests.support.replicas.replicated import Replicas

MAKERS = (backups_of, restores_of, drills_of, verifications_of, record_of)


def test_each_asset_of_each_archive_is_another_one() -> None:
    made = [make(name) for make in MAKERS for name in ("shop", "shop_restores", "shop-2")]
    made += [backups_of(name, source) for name in ("shop", "shop-2") for source in ("crm", "restores", "record")]
    assert len({asset.name for asset in made}) == len({asset.uri for asset in made}) == len(made)


def test_airflow_leaves_the_addresses_as_they_are() -> None:
    assert (backups_of("shop").name, backups_of("shop").uri) == ("holdfast_shop", "x-holdfast://shop")
    assert (drills_of("shop").name, drills_of("shop").uri) == ("holdfast_shop:drills", "x-holdfast://shop/drills")


def test_airflow_makes_and_reads_the_addresses_by_the_provider(configuration: Path) -> None:
    configuration.write_text("archives: {shop: {url: 's3://backups/shop', sources: {crm: {connection: crm}}}}")
    manager = ProvidersManagerTaskRuntime()  # type: ignore[no-untyped-call]
    asset = manager.asset_factories["x-holdfast"](archive="shop", source="crm", extra={"a": 1})
    assert asset == Asset(name="holdfast_shop:backups/crm", uri="x-holdfast://shop/backups/crm", extra={"a": 1})
    assert asset.normalized_uri == asset.uri
    dataset = translate_airflow_asset(asset, None)
    assert dataset is not None
    assert (dataset.namespace, dataset.name) == ("s3://backups", "shop")
    assert translate_airflow_asset(backups_of("gone"), None) is None
    assert Asset(name="x", uri="x-holdfast:///shop").normalized_uri is None


@pytest.mark.parametrize("source", ["record", "crm"])
def test_backups_of_a_source_are_no_record(source: str) -> None:
    assert not is_record(backups_of("shop", source).uri)


@pytest.mark.parametrize("archive", ["shop", "record", "shop.record"])
@pytest.mark.parametrize("make", MAKERS)
def test_only_the_record_is_one_whatever_the_archive_is_called(make: Callable[[str], Asset], archive: str) -> None:
    assert is_record(make(archive).uri) is (make is record_of)


@pytest.mark.parametrize("uri", ["s3://shop/record", "x-holdfast://shop/record/old", "x-holdfast://", ""])
def test_other_addresses_are_no_records(uri: str) -> None:
    assert not is_record(uri)


OTHER = Asset(name="other", uri="s3://other/record")


def filled(store: ObjectStore, *outlets: Any) -> dict[str, Any]:
    """Return what the events have, by the names of their assets."""
    events = {asset: SimpleNamespace(extra={"of": "before"}) for asset in outlets if isinstance(asset, Asset)}
    context: Any = {"outlet_events": events}
    summary = {"commit": 7}
    fill_events(outlets, context, summary=summary, archive=ArchiveContext.resolve(find_archive("shop")), store=store)
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
    fill_events(
        [record_of("shop")], context, summary={}, archive=ArchiveContext.resolve(config), store=shop.place("near")
    )
    assert event.extra["replication"] is None
