"""Which databases a restore goes into, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from holdfast.common.errors import BusyError, RefusedError
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.plan.empty_target import check_empty
from holdfast.postgresql.restore.rows import load

pytestmark = pytest.mark.service


@pytest.fixture
def target(new_database: Callable[..., Address]) -> Address:
    return new_database()


@contextmanager
def claim(target: Address, catalog: Catalog) -> Iterator[None]:
    """What a restore of everything asks of its target before it begins."""
    with load.hold_target(target) as held:
        load.check_target(held, target, catalog)
        check_empty(held, target)
        yield


def test_an_empty_database_is_claimed_by_one_restore_at_a_time(target: Address, catalog: Catalog) -> None:
    with (
        claim(target, catalog),
        pytest.raises(BusyError, match="another restore is at work"),
        claim(target, catalog),
    ):
        pass
    with claim(target, catalog):
        pass


def test_a_database_that_is_not_empty_is_refused(target: Address, catalog: Catalog) -> None:
    with connect(target) as session:
        session.execute("create table public.filled (id int); create view public.shown as select 1")
        session.execute("create schema mine; grant usage on schema mine to public")
        session.execute("create type public.mood as enum ('a')")
        session.execute("create function public.does() returns int language sql as 'select 1'")
    objects = r"function public\.does\(\), public\.filled, public\.shown, schema mine, type public\.mood\."
    with pytest.raises(RefusedError, match=f"is not empty: it has {objects}"), claim(target, catalog):
        pass


def test_what_an_extension_brings_does_not_count(target: Address, catalog: Catalog) -> None:
    with connect(target) as session:
        session.execute("create extension pg_stat_statements schema public")
    with claim(target, catalog):
        pass


def test_a_target_that_is_older_is_refused(target: Address, catalog: Catalog) -> None:
    newer = catalog.model_copy(update={"server_version": 990000})
    with (
        pytest.raises(RefusedError, match=r"the backup is of 99, .* restore into the same or a newer version"),
        claim(target, newer),
    ):
        pass


def test_a_target_of_another_encoding_is_refused(new_database: Callable[..., Address], catalog: Catalog) -> None:
    latin = new_database("encoding 'LATIN1' template template0")
    with (
        pytest.raises(RefusedError, match=r"encoded in LATIN1.* createdb --encoding=UTF8"),
        claim(latin, catalog),
    ):
        pass
