"""Addresses of an archive's assets: each its own, and told from those of others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from airflow.sdk import Asset

from holdfast_airflow.assets import backups_of, drills_of, is_record, record_of, restores_of, verifications_of

MAKERS = (backups_of, restores_of, drills_of, verifications_of, record_of)


def test_each_asset_of_each_archive_is_another_one() -> None:
    made = [make(name) for make in MAKERS for name in ("shop", "shop_restores", "shop-2")]
    assert len({asset.name for asset in made}) == len({asset.uri for asset in made}) == len(made)


def test_airflow_leaves_the_addresses_as_they_are() -> None:
    assert (backups_of("shop").name, backups_of("shop").uri) == ("holdfast_shop", "x-holdfast://shop")
    assert (drills_of("shop").name, drills_of("shop").uri) == ("holdfast_shop:drills", "x-holdfast://shop/drills")


@pytest.mark.parametrize("archive", ["shop", "record", "shop.record"])
@pytest.mark.parametrize("make", MAKERS)
def test_only_the_record_is_one_whatever_the_archive_is_called(make: Callable[[str], Asset], archive: str) -> None:
    assert is_record(make(archive).uri) is (make is record_of)


@pytest.mark.parametrize("uri", ["s3://shop/record", "x-holdfast://shop/record/old", "x-holdfast://", ""])
def test_other_addresses_are_no_records(uri: str) -> None:
    assert not is_record(uri)
