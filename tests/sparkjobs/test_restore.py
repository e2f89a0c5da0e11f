"""Restores into real databases: proved equal, or refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.archive import Archive
from holdfast.sources.postgresql.address import Address
from holdfast.sources.postgresql.session import connect
from holdfast.storage import ObjectStore
from tests.support.jobs import RunJob, failed

pytestmark = pytest.mark.service

CreateDatabase = Callable[..., Address]


@pytest.fixture(scope="module")
def shop(create_database: CreateDatabase) -> Address:
    """A table with all that comes back after its rows: key, sequence, materialised view, owner, privilege."""
    return create_database(
        "drop role if exists clerk",
        "create role clerk",
        "create table orders (id int generated always as identity primary key, name text)",
        "insert into orders (name) select 'order ' || i from generate_series(1, 1000) i",
        "create materialized view totals as select count(*) as orders from orders",
        "grant select on orders to clerk",
    )


def relations(address: Address) -> list[str]:
    with connect(address) as session:
        query = "select relname::text from pg_class where relnamespace = 'public'::regnamespace order by 1"
        return [row[0] for row in session.execute(query)]


def test_everything_comes_back_and_no_mark_is_left(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, shop: Address
) -> None:
    target = create_database()
    code, record = run_restore(target)
    assert record.result is not None
    assert (code, record.result["rows"], record.result["equal"], record.result["source"]) == (0, 1000, True, "shop")
    assert relations(target) == relations(shop)
    with connect(target) as session:
        assert session.execute("select nextval('public.orders_id_seq')").fetchone() == (1001,)
        assert session.execute("select orders from public.totals").fetchone() == (1000,)
        assert session.execute("select has_table_privilege('clerk', 'public.orders', 'select')").fetchone() == (True,)
        assert session.execute("select to_regnamespace('holdfast_restore')").fetchone() == (None,)


@pytest.mark.parametrize(
    "there",
    ["create table mine (id int)", "create schema mine", "create sequence mine", "create view mine as select 1"],
)
def test_a_target_that_is_not_empty_is_refused_and_left_alone(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, there: str
) -> None:
    target = create_database(there)
    before = relations(target)
    code, message = failed(run_restore(target))
    assert code == 5
    assert "is not empty: it has" in message
    assert "mine" in message
    assert "createdb makes one" in message
    assert relations(target) == before


def test_roles_that_the_target_lacks_are_named(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = create_database()
    with connect(target) as session:
        session.execute("alter role clerk rename to someone_else")
    try:
        code, message = failed(run_restore(target))
    finally:
        with connect(target) as session:
            session.execute("alter role someone_else rename to clerk")
    assert code == 5
    assert "names roles that" in message
    assert "lacks: clerk. Create them first (CREATE ROLE" in message
    assert relations(target) == []


def test_a_damaged_file_is_named_and_the_target_stays_marked(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, store: ObjectStore
) -> None:
    (block,) = Archive.open(store).commits[0].add
    (path,) = [file.path for table in block.tables for file in table.files]
    body = bytearray(store.get(path))
    body[len(body) // 2] ^= 1
    store.put(path, bytes(body))
    target = create_database()
    code, message = failed(run_restore(target))
    assert (code, path in message) == (4, True)
    code, message = failed(run_restore(target))
    assert (code, "holds an unfinished restore" in message) == (5, True)


def test_another_restore_into_the_same_database_is_kept_out(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase
) -> None:
    target = create_database()
    with connect(target) as other:
        other.execute("select pg_advisory_lock(%s)", (0x486F6C6466617374,))
        code, message = failed(run_restore(target))
    assert (code, "another restore is at work" in message) == (3, True)


@pytest.mark.parametrize(
    ("at", "code", "words"),
    [
        ("2020-01-01T00:00:00Z", 5, "the nearest restorable moments are: after it"),
        ("commit:7", 5, "it has: commit:1"),
        ("yesterday", 2, "latest, commit:N"),
        ("2020-01-01T00:00:00", 2, "no time zone"),
    ],
)
def test_a_moment_that_cannot_be_restored_is_refused_with_those_that_can(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, at: str, code: int, words: str
) -> None:
    target = create_database()
    found, message = failed(run_restore(target, "--at", at))
    assert (found, words in message) == (code, True)
    assert relations(target) == []


def test_an_archive_without_backups_restores_nothing(run_restore: RunJob, create_database: CreateDatabase) -> None:
    code, message = failed(run_restore(create_database()))
    assert (code, "no backups yet" in message) == (2, True)


def test_a_lost_connection_is_one_sentence(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang_up(address: Address, dump: bytes, *, server_version: int) -> None:
        with connect(address) as other:
            other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )

    monkeypatch.setattr("sparkjobs.restore.restore_pre_data", hang_up)
    code, message = failed(run_restore(create_database()))
    assert code == 1
    assert "\n" not in message
    assert "terminating connection due to administrator command" in message or "UndefinedTable" in message
