from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from holdfast.errors import BusyError, HoldfastError
from holdfast.sources.postgresql.address import Address
from holdfast.sources.postgresql.dump import dump_schema, restore_post_data, restore_pre_data
from holdfast.sources.postgresql.session import connect
from holdfast.sources.postgresql.snapshot import hold_snapshot
from tests.support.command import until

pytestmark = pytest.mark.service

SHOP = """
create table public.customers (id int primary key, name text not null check (name <> ''));
create table public.orders (id int, day int, customer int references public.customers, primary key (id, day))
  partition by range (day);
create table public.orders_1 partition of public.orders for values from (0) to (10);
create table public.orders_2 partition of public.orders for values from (10) to (20);
create index on public.orders (customer);
create function public.note() returns trigger language plpgsql as $$ begin return new; end $$;
create trigger note before insert on public.customers for each row execute function public.note();
"""

OBJECTS = """
select 'relation ' || relname from pg_class where relnamespace = 'public'::regnamespace
union all select 'constraint ' || conname from pg_constraint where connamespace = 'public'::regnamespace
union all select 'trigger ' || tgname from pg_trigger where not tgisinternal order by 1
"""


def objects(address: Address) -> list[str]:
    with connect(address) as session:
        return [row[0] for row in session.execute(OBJECTS)]


@pytest.fixture
def version(address: Address) -> int:
    with connect(address) as session:
        return session.info.server_version


def dump(address: Address, version: int) -> bytes:
    with hold_snapshot(address) as held:
        made, warnings = dump_schema(address, held.snapshot, server_version=version)
    assert warnings == ()
    return made


def test_a_schema_comes_back_whole_in_two_parts(
    address: Address, new_database: Callable[..., Address], version: int
) -> None:
    with connect(address) as session:
        session.execute(SHOP)
    made = dump(address, version)
    target = new_database()
    restore_pre_data(target, made, server_version=version)
    before = objects(target)
    assert "relation orders_2" in before
    assert not {"constraint customers_pkey", "trigger note", "relation orders_customer_idx"} & set(before)
    restore_post_data(target, made, server_version=version, jobs=2)
    assert objects(target) == objects(address)


def test_the_schema_is_that_of_the_snapshot(address: Address, version: int) -> None:
    with hold_snapshot(address) as held:
        with connect(address) as session:
            session.execute("create table public.later (id int)")
        made, _ = dump_schema(address, held.snapshot, server_version=version)
    assert b"later" not in made


def test_a_schema_that_is_there_already_fails_with_pg_restores_words(address: Address, version: int) -> None:
    with connect(address) as session:
        session.execute(SHOP)
    made = dump(address, version)
    with pytest.raises(HoldfastError, match=r"^pg_restore failed: .* already exists"):
        restore_pre_data(address, made, server_version=version)


def test_what_is_no_dump_fails_with_pg_restores_words(address: Address, version: int) -> None:
    with pytest.raises(HoldfastError, match=r"^pg_restore failed: "):
        restore_pre_data(address, b"nonsense", server_version=version)


def test_a_server_newer_than_every_pg_dump_is_told_what_to_install(address: Address) -> None:
    with hold_snapshot(address) as held, pytest.raises(HoldfastError, match="install postgresql-client-99"):
        dump_schema(address, held.snapshot, server_version=990000)


def test_one_who_waits_to_drop_a_table_is_named(
    address: Address, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.sources.postgresql.dump.QUEUE_WAIT_S", 0.1)
    with connect(address) as session:
        session.execute("create table public.wanted (id int)")
    waits = "select exists (select from pg_locks where not granted and relation = 'public.wanted'::regclass)"
    with (
        hold_snapshot(address) as held,
        connect(address) as other,
        connect(address) as watcher,
        ThreadPoolExecutor(1) as pool,
    ):
        drop = pool.submit(other.execute, "drop table public.wanted")
        until(lambda: watcher.execute(waits).fetchone() == (True,), "the drop to wait")
        with pytest.raises(BusyError, match=rf"wanted by pid {other.info.backend_pid}"):
            dump_schema(address, held.snapshot, server_version=version)
        other.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            drop.result()
