"""What is in no table comes back, too: large objects; and what belongs to the server: roles and tablespaces."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.postgresql.catalog.large_objects import LargeObjectGroup
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.programs import need_program
from holdfast.postgresql.restore.objects.object_creation import create_large_objects
from holdfast.postgresql.restore.rows import load
from tests.support.jobs.inline_jobs import RunJob, failed

pytestmark = pytest.mark.service

CreateDatabase = Callable[..., Address]

SOURCE = (
    "drop role if exists beyond_owner, beyond_reader, beyond_member",
    "create role beyond_owner",
    "create role beyond_reader connection limit 5",
    "create role beyond_member login in role beyond_reader",
    "create table notes (id int primary key, picture oid)",
    "insert into notes select i, lo_from_bytea(50000 + i, decode(repeat(md5(i::text), 600), 'hex')) "
    "from generate_series(1, 20) i",
    "select lo_create(50100), lo_from_bytea(50101, 'short'), lo_put(50101, 100000, 'behind a hole')",
    "do $$ begin perform lo_truncate64(lo_open(50100, x'60000'::int), 4096); end $$",
    "alter large object 50001 owner to beyond_owner",
    "grant select on large object 50002 to beyond_reader",
    "comment on large object 50003 is 'a picture'",
    "create unlogged table visits (id int)",
    "insert into visits select generate_series(1, 10)",
    "grant select on notes to beyond_reader",
)


@pytest.fixture(scope="module")
def shop(create_database: CreateDatabase) -> Address:
    return create_database(*SOURCE)


def dump(address: Address) -> list[str]:
    """Everything that pg_dump says of a database, with rows and large objects."""
    options = ["--restrict-key=same", "--dbname", address.url]
    done = subprocess.run(
        [need_program("pg_dump", at_least=18), *options],
        env=address.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@contextmanager
def without_roles(address: Address, *names: str) -> Iterator[None]:
    """Let a server lack roles meanwhile; what is made of their names is dropped."""
    with connect(address) as session:
        for name in names:
            session.execute(f"alter role {name} rename to was_{name}".encode())
    try:
        yield
    finally:
        with connect(address) as session:
            for name in names:
                if session.execute("select 1 from pg_roles where rolname = %s", (name,)).fetchone():
                    session.execute(f"drop owned by {name}; drop role {name}".encode())
                session.execute(f"alter role was_{name} rename to {name}".encode())


def test_large_objects_come_back_by_the_account_of_pg_dump(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, shop: Address
) -> None:
    target = create_database()
    code, record = run_restore(target)
    assert record.result is not None, record.error
    assert (code, record.result["equal"], record.result["not_restored"]) == (0, True, [])
    assert record.result["unlogged"] == ["public.visits"]
    assert any(
        "unlogged, so that a crash of the target's server empties them: public.visits" in each for each in said(record)
    )
    assert dump(target) == dump(shop)
    ends = "select lo_lseek64(lo_open(oid, x'40000'::int), 0, 2) from pg_largeobject_metadata order by oid"
    pages = "select loid, pageno, data from pg_largeobject order by 1, 2"
    assert rows(target, ends) == rows(shop, ends)
    assert rows(target, pages) == rows(shop, pages)


def said(record: Any) -> list[str]:
    return list(record.said)


def rows(address: Address, query: str) -> list[Any]:
    with connect(address) as session, session.transaction():
        return session.execute(query.encode()).fetchall()


def test_a_large_object_with_other_contents_is_found(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = create_database()

    differences = load.differences

    def spoil(*given: Any) -> Any:
        with connect(target) as other:
            other.execute("select lo_put(50005, 3, 'X')")
        return differences(*given)

    monkeypatch.setattr(load, "differences", spoil)
    code, message = failed(run_restore(target))
    assert (code, "pg_catalog.pg_largeobject has" in message) == (4, True)
    assert "rows with other contents" in message


@pytest.mark.exhaustive
def test_a_restore_that_was_ended_goes_on_with_its_large_objects(
    backed_up: None,
    run_restore: RunJob,
    create_database: CreateDatabase,
    shop: Address,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = create_database()

    def half(session: Any, group: LargeObjectGroup) -> None:
        create_large_objects(session, group)
        raise ConnectionError("the power is gone")

    with monkeypatch.context() as patch:
        patch.setattr("holdfast.postgresql.restore.objects.object_creation.create_large_objects", half)
        failed(run_restore(target))
    code, record = run_restore(target)
    assert (code, record.error) == (0, None)
    assert dump(target) == dump(shop)


@pytest.mark.exhaustive
@pytest.mark.parametrize("option", [("--tables", "public.notes"), ("--map", "public=restored")])
def test_chosen_or_renamed_tables_come_without_large_objects_and_say_so(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase, option: tuple[str, str]
) -> None:
    code, record = run_restore(create_database("select lo_create(50001)"), *option)
    assert record.result is not None, record.error
    assert code == 0
    reason = "they come with everything only, under its own names"
    assert {"object": "22 large objects", "reason": reason, "statement": ""} in record.result["not_restored"]


def test_a_target_with_a_large_object_is_refused(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase
) -> None:
    code, message = failed(run_restore(create_database("select lo_create(7)")))
    assert (code, "is not empty: it has large object 7" in message) == (5, True)


@pytest.mark.exhaustive
def test_large_objects_that_were_left_out_come_back_empty(
    run_backup: RunJob, run_restore: RunJob, create_database: CreateDatabase, shop: Address
) -> None:
    _, record = run_backup(shop, "--tables", "public.*")
    assert record.result is not None, record.error
    assert said(record) == ["unlogged, so that a crash of a server empties them: public.visits"]
    assert record.result["unlogged"] == ["public.visits"]
    assert record.result["not_included"] == ["rows of pg_catalog.pg_largeobject: not selected"]
    target = create_database()
    assert run_restore(target)[0] == 0
    assert rows(target, "select count(*), sum(length(lo_get(oid))) from pg_largeobject_metadata") == [(22, 0)]


def test_missing_roles_are_made_where_that_is_wanted(
    backed_up: None, run_restore: RunJob, create_database: CreateDatabase
) -> None:
    target = create_database()
    with without_roles(target, "beyond_reader", "beyond_member"):
        code, message = failed(run_restore(target))
        assert (code, "lacks: beyond_reader. Create them first (CREATE ROLE …, or --roles create)" in message) == (
            5,
            True,
        )
        _, planned = run_restore(target, "--roles", "create", "--dry-run")
        assert planned.result is not None
        names = ["beyond_member", "beyond_reader"]
        roles = {"created": names, "without_password": ["beyond_member"], "differences": [], "joined": []}
        assert planned.result["plan"]["roles"] == roles
        assert rows(target, "select 1 from pg_roles where rolname = 'beyond_reader'") == []
        code, record = run_restore(target, "--roles", "create")
        assert record.result is not None, record.error
        assert (code, record.result["roles"]) == (0, roles)
        assert "roles that need a password to log in: beyond_member" in said(record)
        query = "select rolconnlimit, pg_has_role('beyond_member', oid, 'member') from pg_roles where rolname = %s"
        with connect(target) as session:
            assert session.execute(query, ("beyond_reader",)).fetchone() == (5, True)
            may = "select has_table_privilege('beyond_member', 'public.notes', 'select')"
            assert session.execute(may).fetchone() == (True,)


TABLESPACE = """
select coalesce(spcname, '') from pg_class c left join pg_tablespace t on t.oid = reltablespace where relname = 'quick'
"""


def test_tablespaces_are_dropped_or_kept(
    run_backup: RunJob, run_restore: RunJob, create_database: CreateDatabase
) -> None:
    setting = "set allow_in_place_tablespaces = on"
    source = create_database(
        setting, "create tablespace beyond_fast location ''", "create table quick (id int) tablespace beyond_fast"
    )
    assert run_backup(source)[0] == 0
    kept, dropped = create_database(), create_database()
    assert run_restore(kept, "--tablespaces", "keep")[0] == 0
    assert rows(kept, TABLESPACE) == [("beyond_fast",)]
    with connect(source) as session:
        session.execute("alter tablespace beyond_fast rename to beyond_slow")
    code, message = failed(run_restore(dropped, "--tablespaces", "keep"))
    assert (code, "lacks tablespaces of the backup, or" in message, "beyond_fast" in message) == (5, True, True)
    code, record = run_restore(dropped)
    assert record.result is not None, record.error
    assert (code, rows(dropped, TABLESPACE)) == (0, [("",)])
    assert [each["object"] for each in record.result["not_restored"]] == ["tablespace beyond_fast"]
