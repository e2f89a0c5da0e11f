"""No statement of any client of ours runs under settings that a database's owner has made."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.value_settings import SETTINGS
from tests.support.jobs.inline_jobs import RunJob
from tests.support.servers.wire import Said, recorded

pytestmark = pytest.mark.service

EVIL = """
create schema evil;
create table evil.ran (who name, what text);
grant usage on schema evil to public;
grant insert on evil.ran to public;
create function evil.version() returns text language plpgsql as $$
  begin insert into evil.ran values (current_user, 'version'); return pg_catalog.version(); end $$;
create function evil.differ(oid, int) returns bool language plpgsql as $$
  begin insert into evil.ran values (current_user, 'differ'); return not $1 operator(pg_catalog.=) $2::oid; end $$;
create operator evil.<> (function = evil.differ, leftarg = oid, rightarg = int);
create table public.orders (id int primary key, word text);
insert into public.orders select i, 'word' from generate_series(1, 10) i;
"""


@pytest.fixture
def owned_by_another(new_database: Callable[..., Address]) -> Address:
    """A database whose owner has functions and operators of his own before PostgreSQL's."""
    address = new_database()
    with connect(address) as session:
        session.execute(EVIL.encode())
        session.execute(f"alter database {address.database} set search_path = evil, pg_catalog".encode())
        session.execute(f"alter database {address.database} set row_security = on".encode())
        session.execute(f"alter database {address.database} set default_transaction_read_only = off".encode())
    return address


def kind_of(said: Said) -> str:
    return "replication" if "replication" in said.parameters else said.parameters.get("application_name", "adbc")


def test_all_statements_of_all_clients_run_under_our_settings(
    postgres: PostgresServer,
    owned_by_another: Address,
    address: Address,
    run_backup: RunJob,
    run_restore: RunJob,
) -> None:
    with recorded(postgres.port) as recorder:
        source, target = recorder.way_to(owned_by_another), recorder.way_to(address)
        for kind in ("full", "changes", "changes"):
            code, record = run_backup(source, "--kind", kind)
            assert code == 0, record.error
            with connect(source) as session:
                session.execute("insert into public.orders select max(id) + 1, 'more' from public.orders")
        code, record = run_restore(target)
        assert code == 0, record.error
    asked = [said for said in recorder.connections if said.statements]
    assert {"holdfast", "adbc", "pg_dump", "replication"} == {kind_of(said) for said in asked}
    sent_apart = {"client_encoding": SETTINGS["client_encoding"]}
    for said in asked:
        began = said.settings | sent_apart
        assert said.parameters["client_encoding"] == "UTF8", kind_of(said)
        assert {name: began.get(name) for name in SETTINGS} == SETTINGS, (kind_of(said), said.statements[0])
    with connect(owned_by_another) as session:
        assert session.execute("select * from evil.ran").fetchall() == []
