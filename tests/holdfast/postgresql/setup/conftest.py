"""A shop, and a role that is to back it up."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from tests.support.databases.granting import Execute

_numbers = itertools.count(1)


SHOP = """
create schema hr; create table hr.staff (id int); create sequence hr.numbers; create table public.orders (id serial);
create table public.parted (id int) partition by range (id);
"""


@pytest.fixture
def role(postgres: PostgresServer) -> Iterator[str]:
    """A name that no role has; what has it in the end is dropped, with its rights in every database."""
    name = f"grants_{next(_numbers)}"
    yield name
    home = Address(postgres.url(), postgres.password)
    with connect(home) as session:
        # Where it has rights or owns something; wherever that is done, it takes those of the whole server, too.
        names = session.execute(
            "select distinct coalesce(d.datname, current_database()) from pg_roles r "
            "left join pg_shdepend s on s.refclassid = 'pg_authid'::regclass and s.refobjid = r.oid "
            "left join pg_database d on d.oid = s.dbid where rolname = %s",
            (name,),
        ).fetchall()
    for (database,) in names:
        with connect(home.at_database(database)) as session:
            session.execute(f"drop owned by {name}".encode())
    with connect(home) as session:
        session.execute(f"drop role if exists {name}".encode())


@pytest.fixture
def shop(address: Address) -> Address:
    with connect(address) as session:
        session.execute(SHOP)
    return address


@pytest.fixture
def execute(address: Address) -> Execute:
    """Runs statements in the database as a superuser."""

    def run(*statements: str) -> None:
        with connect(address) as session:
            for statement in statements:
                session.execute(statement.encode())

    return run
