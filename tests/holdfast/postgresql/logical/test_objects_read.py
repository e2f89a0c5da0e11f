"""A source's objects are read together, and their definitions only where they are not known."""

from __future__ import annotations

import pytest

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.objects_read import read_objects

pytestmark = pytest.mark.service


def run(address: Address, *statements: str) -> None:
    with connect(address) as session:
        for statement in statements:
            session.execute(statement.encode())


def test_definitions_are_dumped_only_where_they_are_not_known(address: Address) -> None:
    run(address, "create table public.orders (id int)", "create foreign data wrapper nothing",
        "create server far foreign data wrapper nothing", "create foreign table public.far (id int) server far",
        )  # fmt: skip
    first = read_objects(address)
    assert first.dump is not None
    assert b"orders" in first.dump
    assert [table.label for table in first.catalog.tables] == ["public.far", "public.orders"]
    assert first.not_included == ("foreign table public.far: its rows are on another server",)
    run(address, "insert into public.orders values (1)", "analyze public.orders")
    again = read_objects(address, first.version)
    assert (again.version, again.dump, again.digest) == (first.version, None, "")
    assert again.not_included == first.not_included
    run(address, "create index by_id on public.orders (id)")
    changed = read_objects(address, first.version)
    assert changed.dump is not None
    assert b"by_id" in changed.dump
    assert (changed.version == first.version, changed.digest == first.digest) == (False, False)


def test_what_comes_to_the_same_has_the_same_digest_under_another_version(address: Address) -> None:
    run(address, "create table public.orders (id int)")
    first = read_objects(address)
    run(address, "create view public.v as select 1", "drop view public.v", "comment on table public.orders is 'x'",
        "comment on table public.orders is null")  # fmt: skip
    again = read_objects(address, "another")
    assert again.digest == first.digest


def test_everything_that_may_not_be_read_is_named_at_once(address: Address) -> None:
    run(address, "create schema hr", "create table hr.staff (id int)", "create table public.secrets (id int)",
        "create role objects_reader login password 'p'")  # fmt: skip
    try:
        with pytest.raises(
            RefusedError, match=r"may not use the schemas hr, and may not read hr\.staff, public\.secrets"
        ):
            read_objects(address.as_user("objects_reader", "p"))
    finally:
        run(address, "drop role objects_reader")
