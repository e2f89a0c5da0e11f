"""What was in a tablespace of its own is known, and comes back in it or in the database's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.dump import dump_schema
from holdfast.postgresql.dump.dump_entries import read_entries
from holdfast.postgresql.restore.plan.plan import RestorePlan, without_tablespaces
from holdfast.postgresql.snapshot.snapshot import hold_snapshot

pytestmark = pytest.mark.service

TABLES = """
create table public.plain (id int primary key);
create table public.quick (id int primary key using index tablespace tablespaces_fast) tablespace "Tablespace's own";
create table public.parts (id int) partition by range (id) tablespace tablespaces_fast;
"""


@pytest.fixture
def session(address: Address) -> Iterator[Any]:
    with connect(address) as session:
        session.execute("set allow_in_place_tablespaces = on")
        for name in ("tablespaces_fast", '"Tablespace\'s own"', "tablespaces_idle"):
            session.execute(f"create tablespace {name} location ''".encode())
        session.execute(TABLES.encode())
        yield session
        session.execute("drop table public.plain, public.quick, public.parts")
        for name in ("tablespaces_fast", '"Tablespace\'s own"', "tablespaces_idle"):
            session.execute(f"drop tablespace {name}".encode())


def test_tablespaces_are_recorded_and_can_be_left_out(session: Any, address: Address) -> None:
    with hold_snapshot(address) as held:
        found = held.catalog.tablespaces
        dump, _ = dump_schema(address, held.snapshot, server_version=held.catalog.server_version)
    assert found is not None
    assert [each.name for each in found] == ["Tablespace's own", "tablespaces_fast"]
    assert all(each.location.startswith("pg_tblspc/") for each in found)
    entries = read_entries(dump, server_version=session.info.server_version)
    plan = RestorePlan(tables=(), entries=entries, sequences=(), materialized_views=(), roles=())
    assert plan.tablespaces == ("Tablespace's own", "tablespaces_fast")
    # What stands before the first entry is meant for it.
    settings = {entry.name: entry.settings for entry in entries if entry.kind == "TABLE"}
    assert settings["parts"].startswith("SET default_tablespace = tablespaces_fast;")
    assert settings["plain"].startswith("SET default_tablespace = '';")
    left = without_tablespaces(plan)
    assert left.tablespaces == ()
    assert [entry.sql for entry in left.entries] == [entry.sql for entry in entries]
    quick = next(entry for entry in left.entries if entry.name == "quick" and entry.kind == "TABLE")
    assert quick.settings == "SET default_table_access_method = heap;"
