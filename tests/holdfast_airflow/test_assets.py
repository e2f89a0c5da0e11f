"""Addresses of an archive's assets: each its own, and told from those of others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.providers.openlineage.utils.utils import translate_airflow_asset
from airflow.sdk import Asset
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

from holdfast_airflow.assets import backups_of, drills_of, is_record, record_of, restores_of, verifications_of

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
