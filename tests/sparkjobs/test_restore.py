"""Restores into real databases: proved equal, or refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.common.errors import RefusedError
from holdfast.operations.executor_choice import FORCED_VARIABLE, HAND_OVER
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump import programs
from holdfast.postgresql.dump.client_floors import Release
from holdfast.postgresql.restore.plan.ledger import read_ledger
from holdfast.storage import ObjectStore
from sparkjobs.driver import application
from tests.support.jobs.command import run
from tests.support.jobs.command_here import run_here
from tests.support.jobs.inline_jobs import RunJob, SteadyExecutor, failed

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
        "create table words (word text)",
        "insert into words values ('a'), ('b'), ('c')",
        "create materialized view totals as select count(*) as orders from orders",
        "grant select on orders to clerk",
    )


def relations(address: Address) -> list[str]:
    with connect(address) as session:
        query = "select relname::text from pg_class where relnamespace = 'public'::regnamespace order by 1"
        return [row[0] for row in session.execute(query)]


def test_a_pg_restore_with_known_vulnerabilities_is_warned_of_and_used(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = programs.version_of
    monkeypatch.setattr(programs, "version_of", lambda each: (own := found(each)) and Release(own.major, 5))
    code, record = run_restore(create_database())
    assert code == 0
    (said,) = [words for words in record.said if "pg_restore" in words]
    assert said.startswith("pg_restore 18.5 is older than 18.6, which mends CVE-2026-18408 (")
    assert "the restore goes on; install postgresql-client-18 18.6 or newer" in said


def test_everything_comes_back_and_no_mark_is_left(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, shop: Address
) -> None:
    target = create_database()
    code, record = run_restore(target)
    assert record.result is not None
    assert (code, record.result["rows"], record.result["equal"], record.result["source"]) == (0, 1003, True, "shop")
    assert relations(target) == relations(shop)
    assert record.result["resumed"] is None
    with connect(target) as session:
        assert session.execute("select nextval('public.orders_id_seq')").fetchone() == (1001,)
        assert session.execute("select orders from public.totals").fetchone() == (1000,)
        assert session.execute("select has_table_privilege('clerk', 'public.orders', 'select')").fetchone() == (True,)
        assert session.execute("select to_regnamespace('holdfast_restore')").fetchone() == (None,)


@pytest.mark.parametrize(
    "there", ["create table mine (id int)", "create schema mine; grant usage on schema mine to public"]
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


def damage(store: ObjectStore, table: str) -> Callable[[], None]:
    """Change a byte of a table's first file; returns what mends it."""
    (block,) = Archive.open(store).commit(1).add
    path = next(file.path for each in block.tables if each.name == table for file in each.files)
    whole = store.get(path)
    body = bytearray(whole)
    body[len(body) // 2] ^= 1
    store.put(path, bytes(body))
    return lambda: store.put(path, whole)


def test_a_restore_that_failed_goes_on_once_its_file_is_mended(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, store: ObjectStore, shop: Address
) -> None:
    mend = damage(store, "words")
    target = create_database()
    ran = run_restore(target)
    code, message = failed(ran)
    assert code == 4
    assert "is damaged" in message
    assert message.endswith("once that is mended, run it again: it goes on from 1 of 2 files")
    mend()
    code, again = run_restore(target)
    assert again.result is not None, again.error
    assert (code, again.result["equal"], again.result["rows"]) == (0, True, 1003)
    assert again.result["resumed"] == {"run": ran[1].run, "files": 1, "rows": 1000}
    assert again.said[0] == f"going on with run {ran[1].run}'s restore: 1 of 2 files were in"
    assert relations(target) == relations(shop)


def test_an_unfinished_restore_of_everything_is_gone_on_with_or_the_database_is_dropped(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, store: ObjectStore
) -> None:
    damage(store, "words")
    target = create_database()
    _, first = run_restore(target)
    before = relations(target)
    for options in (["--tables", "public.orders"], ["--map", "public=x"], ["--tables", "public.orders", "--dry-run"]):
        code, message = failed(run_restore(target, *options))
        assert code == 5
        assert f"holds an unfinished restore of commit 1 (run {first.run}), and this one is of other tables" in message
        assert "go on with that one (--at commit:1), or drop the database, create it empty and restore again" in message
    code, planned = run_restore(target, "--dry-run")
    assert (code, planned.said) == (0, (f"would go on with run {first.run}'s restore: 1 of 2 files were in",))
    assert relations(target) == before


def test_an_unfinished_restore_that_has_done_nothing_is_in_nobodys_way(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = create_database()
    with monkeypatch.context() as patch:
        patch.setattr("sparkjobs.driver.building.object_creation.create_tables", refuse)
        assert run_restore(target)[0] == 5
    code, record = run_restore(target, "--tables", "public.orders")
    assert (code, "nothing yet" in record.said[0]) == (0, True)


def refuse(*_: object) -> None:
    raise RefusedError("no room")


def test_what_another_release_plans_otherwise_is_not_gone_on_with(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, store: ObjectStore
) -> None:
    damage(store, "words")
    target = create_database()
    assert run_restore(target)[0] == 4
    with connect(target) as session:
        session.execute("update holdfast_restore.restore set plan = 'of an older release'")
    code, message = failed(run_restore(target))
    assert (code, "this one would create it otherwise" in message) == (5, True)


def test_another_restore_into_the_same_database_is_kept_out(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase
) -> None:
    target = create_database()
    with connect(target) as other:
        other.execute("select pg_advisory_lock(%s)", (0x486F6C6466617374,))
        code, message = failed(run_restore(target))
        holder = f"in session {other.info.backend_pid} of 127.0.0.1, since 20"
    assert (code, f"another restore is at work in {target.url}, {holder}" in message) == (3, True), message


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Mapping[str, str]:
    return {FORCED_VARIABLE: "auto", "JAVA_HOME": str(tmp_path)}


@pytest.mark.exhaustive
def test_a_small_restore_and_one_that_is_refused_need_no_spark(
    backed_up: None, store: ObjectStore, create_database: CreateDatabase, without_java: Mapping[str, str]
) -> None:
    target = create_database()
    where = ("restore", store.url, "--to", target.url, "--json")
    refused = run_here(*where, "--tables", "public.ordres", address=target, more=without_java)
    assert (refused.code, "did you mean 'public.orders'?" in refused.value["error"]) == (2, True), refused.err
    planned = run_here(*where, "--dry-run", address=target, more=without_java)
    assert (planned.code, planned.value["rows"], relations(target)) == (0, 1003, []), planned.err
    done = run(*where, address=target, more=without_java)
    assert (done.code, done.value["rows"]) == (0, 1003), done.err


def test_a_larger_restore_is_handed_over_to_spark_once_it_is_planned_and_nothing_of_it_is_in_the_target(
    backed_up: None,
    run_restore: RunJob,
    create_database: CreateDatabase,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(application, "make_executor", lambda operation: SteadyExecutor(bounded=True))
    monkeypatch.setattr(application, "INLINE_STORED_BYTES", 100)
    target = create_database()
    assert run_restore(target, "--tables", "public.nope")[0] == 2
    assert run_restore(target)[0] == HAND_OVER
    with connect(target) as session:
        assert read_ledger(session) is None


def test_footers_of_files_do_not_make_a_restore_a_larger_one(
    backed_up: None,
    store: ObjectStore,
    run_restore: RunJob,
    create_database: CreateDatabase,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (block,) = Archive.open(store).commit(1).add
    files = [file for table in block.tables for file in table.files]
    pages = sum(file.page_bytes for file in files)
    assert pages < sum(file.size for file in files)
    monkeypatch.setattr(application, "make_executor", lambda operation: SteadyExecutor(bounded=True))
    target = create_database()
    for room, code in ((pages - 1, HAND_OVER), (pages, 0)):
        monkeypatch.setattr(application, "INLINE_STORED_BYTES", room)
        assert run_restore(target)[0] == code


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
    def hang_up(*_: object) -> tuple[()]:
        with connect(target) as other:
            other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )
        return ()

    target = create_database()
    monkeypatch.setattr("sparkjobs.driver.building.object_creation.create_rest", hang_up)
    code, message = failed(run_restore(target))
    assert code == 1
    assert "\n" not in message
    assert "terminating connection due to administrator command" in message
    assert message.endswith("run it again: it goes on from 2 of 2 files")
