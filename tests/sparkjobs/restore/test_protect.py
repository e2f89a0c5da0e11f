"""`holdfast protect`: a real migration between two marks, both of which come back exactly."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.common.errors import BusyError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import ObjectStore
from tests.sparkjobs.restore.test_rows_first import rows
from tests.support.databases.roundtrips import hashes, schema_of
from tests.support.jobs.command import finish, start, until
from tests.support.jobs.command_here import run_here

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

TABLES = """
create table public.orders (id int primary key, amount int);
create table public.notes (id int primary key, t text);
insert into public.orders select i, i from generate_series(1, 20) i;
insert into public.notes select i, 'n' || i from generate_series(1, 5) i;
"""

MIGRATION = """
alter table public.orders alter amount type int using amount * 100;
create table public.lines (id int primary key, orders int references public.orders);
insert into public.lines values (1, 1);
drop table public.notes
"""

PROGRAM = """
import sys
import psycopg
url, statements, code = sys.argv[1:]
with psycopg.connect(url, autocommit=True) as session:
    session.execute(statements)
print("migrated")
sys.exit(int(code))
"""


@pytest.fixture
def shop(address: Address) -> Address:
    """A database before its migration."""
    with connect(address) as session:
        session.execute(TABLES)
    return address


@pytest.fixture
def program(tmp_path: Path) -> str:
    """What migrates: its arguments are an address, statements and the exit code."""
    path = tmp_path / "migrate.py"
    path.write_text(PROGRAM)
    return str(path)


def protect(store: ObjectStore, shop: Address, *command: str) -> tuple[str, ...]:
    return ("protect", store.url, "--source", shop.url, "--name", "4.2", "--json", "--", *command)


def test_both_sides_of_a_migration_come_back(
    store: ObjectStore, shop: Address, program: str, new_database: NewDatabase
) -> None:
    before = schema_of(shop), hashes(shop)

    done = run_here(*protect(store, shop, sys.executable, program, shop.url, MIGRATION, "0"), address=shop)

    assert done.code == 0, done.err
    assert done.value["exit_code"] == 0
    assert [done.value[each]["mark"] for each in ("before", "after")] == ["before 4.2", "after 4.2"]
    assert [done.value[each]["schema_note"] for each in ("before", "after")] == ["", ""]
    assert "--at 'before 4.2'" in done.value["back"]
    after = schema_of(shop, "--no-publications"), hashes(shop)
    for mark, (schema, found) in {"before 4.2": before, "after 4.2": after}.items():
        target = new_database()
        back = run_here("restore", store.url, "--to", target.url, "--at", mark, "--json", address=target)
        assert back.code == 0, back.err
        assert (back.value["stale"], back.value["not_restored"], back.value["schema_note"]) == ([], [], "")
        assert schema_of(target) == schema
        assert hashes(target) == found


def test_a_command_that_fails_leaves_both_marks_and_its_exit_code(
    store: ObjectStore, shop: Address, program: str
) -> None:
    migrate = (sys.executable, program, shop.url, "drop table public.notes", "7")

    done = run_here(*(each for each in protect(store, shop, *migrate) if each != "--json"), address=shop)

    assert done.code == 7
    assert done.out.splitlines()[-1].startswith(f"to go back: holdfast restore {store.url}")
    assert {mark.name for placed in Archive.open(store).state.blocks.values() for mark in placed.head.marks} == {
        "before 4.2",
        "after 4.2",
    }


@pytest.mark.exhaustive
def test_backups_go_on_while_the_command_runs(store: ObjectStore, shop: Address) -> None:
    holdfast = str(Path(sys.executable).with_name("holdfast"))
    done = run_here(*protect(store, shop, holdfast, "backup", store.url, "--source", shop.url), address=shop)
    assert done.code == 0, done.err


def test_without_a_backup_before_it_the_command_is_not_run(
    store: ObjectStore, shop: Address, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object, **more: object) -> None:
        raise BusyError("somebody is at work")

    monkeypatch.setattr("holdfast.cli.protect.back_up_changes", busy)
    done = run_here(*protect(store, shop, sys.executable, program, shop.url, MIGRATION, "0"), address=shop)
    assert done.code == 3
    assert rows(shop, "select to_regclass('public.lines')") == [(None,)]
    assert run_here(*protect(store, shop, "no-such-program"), address=shop).code == 2


@pytest.mark.exhaustive
def test_a_signal_ends_the_command_and_what_follows_it_is_done(
    store: ObjectStore, shop: Address, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    waits = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
        f"pathlib.Path({str(started)!r}).touch()\n"
        "time.sleep(600)"
    )
    process = start(*protect(store, shop, sys.executable, "-c", waits), address=shop)
    until(started.exists, "the command to begin")
    process.send_signal(signal.SIGTERM)
    done = finish(process)
    assert done.code == 9, done.err
    assert done.value["after"]["mark"] == "after 4.2"
