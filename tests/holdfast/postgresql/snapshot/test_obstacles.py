from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.common.errors import RefusedError
from holdfast.postgresql.catalog.catalog_queries import read_catalog, read_tables
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.snapshot.obstacles import Obstacle, choice_obstacles, obstacles, refuse

pytestmark = pytest.mark.service

READER = "obstacles_reader"


@pytest.fixture
def reader(address: Address) -> Iterator[Address]:
    """Somebody who may connect, and nothing else."""
    with connect(address) as session:
        session.execute(f"create role {READER} login password 'r'".encode())
        yield Address(address.url.replace("postgres@", f"{READER}@"), "r")
        session.execute(f"drop owned by {READER}".encode())
        session.execute(f"drop role {READER}".encode())


def test_everything_that_is_in_the_way_is_named_at_once(address: Address, reader: Address) -> None:
    with connect(address) as session:
        session.execute(
            "create table public.open (id int); create table public.few (id int) partition by range (id);"
            "create schema hr; create sequence hr.numbers; create table public.mine (id int);"
            "alter table public.mine enable row level security; select lo_from_bytea(0, 'abc');"
            f"grant select on public.open, public.mine to {READER}".encode()
        )
    with connect(reader) as session:
        found = [each.what for each in obstacles(session)]
    assert found == [
        f"{READER} may not use the schemas hr, and may not read hr.numbers, pg_catalog.pg_largeobject, public.few",
        f"row-level security would hide rows of public.mine from {READER}",
    ]


def test_whoever_may_read_everything_meets_no_obstacle(address: Address) -> None:
    with connect(address) as session:
        session.execute("create schema hr; create table hr.staff (id int)")
        assert list(obstacles(session)) == []


def test_a_choice_is_refused_for_types_unlogged_tables_and_foreign_keys(address: Address) -> None:
    with connect(address) as session:
        session.execute(
            "create table public.odd (plan pg_node_tree); create unlogged table public.fleeting (id int);"
            "create table public.a (id int primary key); create table public.b (id int references public.a)"
        )
        catalog = read_catalog(session, read_tables(session), values=False)
    chosen = catalog.with_rows(exclude=["*.a"])
    primary = [each.what for each in choice_obstacles(catalog, chosen, standby=False)]
    standby = [each.what for each in choice_obstacles(catalog, chosen, standby=True)]
    assert primary == [
        'public.odd: column "plan" has type pg_node_tree, which PostgreSQL writes but cannot read back',
        "with these tables alone nothing could be restored: public.b refers to public.a",
    ]
    assert set(standby) - set(primary) == {
        "the server is a standby, and unlogged tables cannot be read on one (public.fleeting)"
    }


def test_all_obstacles_are_one_refusal() -> None:
    with pytest.raises(RefusedError, match=r"^one: mend it; two: mend that, too$"):
        refuse([Obstacle("one", "mend it"), Obstacle("two", "mend that, too")])
    refuse([])
