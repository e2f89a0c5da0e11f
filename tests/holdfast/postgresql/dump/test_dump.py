from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from holdfast.common.errors import BusyError, HoldfastError, RefusedError
from holdfast.postgresql.connection import address as addresses
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.value_settings import SETTINGS
from holdfast.postgresql.dump.dump import dump_schema, script_of
from holdfast.postgresql.snapshot.snapshot import hold_snapshot
from tests.support.jobs.command import until
from tests.support.servers.versions import programs_of

pytestmark = pytest.mark.service


@pytest.fixture
def version(address: Address) -> int:
    with connect(address) as session:
        return session.info.server_version


def dump(address: Address, version: int) -> bytes:
    with hold_snapshot(address) as held:
        made, warnings = dump_schema(address, held.snapshot, server_version=version)
    assert warnings == ()
    return made


def test_the_schema_is_that_of_the_snapshot(address: Address, version: int) -> None:
    with hold_snapshot(address) as held:
        with connect(address) as session:
            session.execute("create table public.later (id int)")
        made, _ = dump_schema(address, held.snapshot, server_version=version)
    assert b"later" not in made


def test_what_is_no_dump_fails_with_pg_restores_words(version: int) -> None:
    with pytest.raises(HoldfastError, match=r"^pg_restore failed: "):
        script_of(b"nonsense", "pre-data", server_version=version)


def test_a_dump_is_read_by_a_pg_restore_that_is_as_new_as_it(
    address: Address, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = dump(address, version)
    monkeypatch.setenv("HOLDFAST_PG_BIN", str(programs_of(15)))
    assert "database dump complete" in script_of(made, "pre-data", server_version=150000)


def test_a_schema_that_was_dumped_under_other_settings_is_refused(
    address: Address, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "SETTINGS", {**SETTINGS, "standard_conforming_strings": "off"})
    made = dump(address, version)
    with pytest.raises(RefusedError, match="was not dumped under standard_conforming_strings = on"):
        script_of(made, "pre-data", server_version=version)


def test_one_who_waits_to_drop_a_table_is_named(
    address: Address, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.postgresql.snapshot.snapshot.QUEUE_WAIT_S", 0.1)
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
