"""A session that a program of PostgreSQL's uses: what it asks is answered as the server answers it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.lent_session import lent
from holdfast.postgresql.dump.programs import need_program

pytestmark = pytest.mark.service

OBJECTS = (
    "create table public.t (id int generated always as identity primary key, \"größe\" text default 'ä''\\\\')",
    "create view public.v as select * from public.t where id > 1",
    "create function public.f(a text) returns text language sql as 'select a'",
    "comment on table public.t is E'two\\nlines'",
    'create index on public.t ("größe") where id is not null',
)


def state(client: psycopg.Connection[Any]) -> str:
    return client.info.transaction_status.name


def dump(address: Address) -> str:
    command = [
        str(need_program("pg_dump", at_least=18)),
        "--schema-only",
        "--restrict-key=same",
        "--no-password",
        "--dbname",
        address.link(),
    ]
    return subprocess.run(command, env=address.environment(), capture_output=True, text=True, check=True).stdout


def test_pg_dump_writes_the_same_through_it(new_database: Callable[..., Address]) -> None:
    address = new_database()
    with connect(address) as session:
        for statement in OBJECTS:
            session.execute(statement.encode())
    with connect(address) as session, lent(session) as at:
        lines = dump(at).splitlines()
        assert session.execute("select 1").fetchone() == (1,)
    assert lines == dump(address).splitlines()
    assert "CREATE INDEX" in "".join(lines)


def test_values_nothing_errors_and_transactions_come_through(address: Address) -> None:
    with (
        connect(address) as session,
        lent(session) as at,
        psycopg.connect(at.url, autocommit=True) as client,
    ):
        assert client.execute("select 1::int, null, 'ä'::text, ''::text").fetchone() == (1, None, "ä", "")
        cursor = client.execute("begin; select 2")
        assert (cursor.nextset(), cursor.fetchone()) == (True, (2,))
        assert state(client) == "INTRANS"
        with pytest.raises(psycopg.errors.UndefinedTable, match="nothing_here"):
            client.execute("select * from nothing_here")
        assert state(client) == "INERROR"
        client.execute("rollback")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="only simple queries"):
            client.execute("select %s::int", (1,))
    with connect(address) as session, lent(session):
        pass  # nobody came
