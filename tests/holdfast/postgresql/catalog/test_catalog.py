from __future__ import annotations

import pytest

from holdfast.common.errors import UsageError
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.snapshot.snapshot import hold_snapshot

pytestmark = pytest.mark.service

SHOP = """
create schema shop; create schema hr;
create table hr.staff (id int primary key, boss int references hr.staff);
create table shop.customer (id int primary key, keeper int references hr.staff);
create table shop.sale (day int, id int, customer int references shop.customer, primary key (day, id))
  partition by range (day);
create table shop.sale_1 partition of shop.sale for values from (0) to (10);
create table shop.sale_2 partition of shop.sale for values from (10) to (20) partition by range (id);
create table shop.sale_2_a partition of shop.sale_2 for values from (0) to (100);
create table shop.refund (day int, sale int, foreign key (day, sale) references shop.sale);
create table shop.log (words text);
create extension pg_trgm schema shop;
"""


@pytest.fixture
def catalog(address: Address) -> Catalog:
    with connect(address) as session:
        session.execute(SHOP)
    with hold_snapshot(address) as held:
        return held.catalog


def broken(catalog: Catalog, *globs: str) -> set[str]:
    return set(catalog.broken_references(catalog.with_rows(globs)))


def test_rows_are_in_tables_and_leaf_partitions(catalog: Catalog) -> None:
    assert [table.label for table in catalog.with_rows()] == [
        "hr.staff",
        "shop.customer",
        "shop.log",
        "shop.refund",
        "shop.sale_1",
        "shop.sale_2_a",
    ]


def test_globs_choose_and_exclude(catalog: Catalog) -> None:
    assert [table.label for table in catalog.with_rows(["shop.sale_*", "hr.*"], ["*_1"])] == [
        "hr.staff",
        "shop.sale_2_a",
    ]
    with pytest.raises(UsageError, match=r"--tables shop\.nothing matches no table"):
        catalog.with_rows(["shop.nothing"])


def test_a_whole_database_has_no_broken_reference(catalog: Catalog) -> None:
    assert broken(catalog) == set()


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        (["shop.log"], set()),
        (["hr.staff"], set()),
        (["shop.customer"], {"shop.customer refers to hr.staff"}),
        (["hr.*", "shop.customer"], set()),
        (["shop.sale_1"], {"shop.sale refers to shop.customer"}),
        (["hr.*", "shop.customer", "shop.sale_1", "shop.refund"], {"shop.refund refers to shop.sale"}),
        (["hr.*", "shop.customer", "shop.sale_*", "shop.refund"], set()),
    ],
)
def test_a_choice_of_tables_names_the_foreign_keys_it_would_break(
    catalog: Catalog, globs: list[str], expected: set[str]
) -> None:
    assert broken(catalog, *globs) == expected


def test_the_catalog_survives_its_way_through_the_archive(catalog: Catalog) -> None:
    assert Catalog.model_validate_json(catalog.model_dump_json()) == catalog
