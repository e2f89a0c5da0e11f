"""The event trigger that publishes new tables: which it takes, and that it is in nobody's way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.connection.session import connect
from holdfast.sources.postgresql.logical import new_tables

pytestmark = pytest.mark.service

Connection = psycopg.Connection[tuple[Any, ...]]

NewDatabase = Callable[..., Address]

PUBLICATION = "holdfast_0123456789abcdef"


@pytest.fixture
def session(address: Address) -> Iterator[Connection]:
    """A database with a publication of ours, and the trigger."""
    with connect(address) as opened:
        run(opened, "set search_path = public", f"create publication {PUBLICATION}")
        opened.execute("create publication theirs")
        run(opened, *new_tables.CREATED)
        yield opened


def run(session: Connection, *statements: str) -> None:
    for statement in statements:
        session.execute(statement.encode())


def published(session: Connection, publication: str = PUBLICATION) -> set[str]:
    query = "select tablename::text from pg_publication_tables where pubname = %s"
    return {name for (name,) in session.execute(query, (publication,))}


def noted(session: Connection) -> set[str]:
    row = session.execute("select oid::int8 from pg_publication where pubname = %s", (PUBLICATION,)).fetchone()
    assert row is not None
    return {name for _, _, name, _, _ in new_tables.published(session, row[0])}


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(("create table t (id int primary key)",), id="its key is there at once"),
        pytest.param(("create table t (id int)", "alter table t add primary key (id)"), id="its key comes later"),
        pytest.param(("create table t (a int, b int, primary key (b, a))",), id="of two columns"),
        pytest.param(
            (
                "create table t (id int not null)",
                "create unique index i on t (id)",
                "alter table t add primary key using index i",
            ),
            id="of an index",
        ),
        pytest.param(('create schema "o""d d"', 'create table "o""d d".t (id int primary key)'), id="a strange name"),
        pytest.param(
            ("create table r (id int primary key) partition by hash (id)",
             "create table t partition of r for values with (modulus 1, remainder 0)"),
            id="a partition whose root is not published",
        ),
    ],
)  # fmt: skip
def test_a_table_with_a_primary_key_is_published_before_it_has_a_row(
    session: Connection, statements: tuple[str, ...]
) -> None:
    with session.transaction():
        run(session, *statements)
    assert published(session) == noted(session) == {"t"}
    assert published(session, "theirs") == set()


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(("create table t (id int)", "update t set id = 2"), id="no key"),
        pytest.param(("create table t (id int unique not null)",), id="a unique column"),
        pytest.param(("create table t (id int primary key deferrable)",), id="a key that is deferrable"),
        pytest.param(
            ("create table t (id int)", "insert into t values (1)", "alter table t add primary key (id)"),
            id="rows before its key",
        ),
        pytest.param(("create table t as select 1 as id", "alter table t add primary key (id)"), id="made of a query"),
        pytest.param(("create unlogged table t (id int primary key)",), id="unlogged"),
        pytest.param(("create temp table t (id int primary key)",), id="temporary"),
        pytest.param(
            ("create table t (a int, id int generated always as (a) stored primary key)",), id="a generated key"
        ),
        pytest.param(("create table t (id int primary key) partition by hash (id)",), id="the root of partitions"),
    ],
)
def test_what_cannot_be_followed_from_its_first_row_is_not_published(
    session: Connection, statements: tuple[str, ...]
) -> None:
    run(session, *statements)
    assert published(session) == noted(session) == set()


def test_what_is_taken_back_with_a_savepoint_or_a_transaction_is_not_published(session: Connection) -> None:
    with session.transaction():
        run(session, "create table kept (id int primary key)", "savepoint s")
        run(session, "create table gone (id int primary key)", "rollback to s", "insert into kept values (1)")
    with pytest.raises(psycopg.errors.DivisionByZero), session.transaction():
        run(session, "create table gone (id int primary key)", "select 1 / 0")
    assert published(session) == noted(session) == {"kept"}


def test_a_table_is_published_whoever_makes_it_and_keeps_working(session: Connection, address: Address) -> None:
    run(session, "create role holdfast_test_maker", "grant create on schema public to holdfast_test_maker")
    try:
        with session.transaction():
            run(session, "set local role holdfast_test_maker", "create table t (id int primary key, v int)")
            run(session, "insert into t values (1, 1)", "update t set v = 2", "delete from t")
        with pytest.raises(psycopg.errors.InsufficientPrivilege), session.transaction():
            run(session, "set local role holdfast_test_maker", "insert into holdfast_published.entered values (1, 1)")
        assert noted(session) == {"t"}
    finally:
        run(session, "drop owned by holdfast_test_maker", "drop role holdfast_test_maker")


def test_nothing_of_whoever_makes_a_table_runs_with_the_functions_rights(session: Connection) -> None:
    """Temporary views may be called like PostgreSQL's own tables."""
    run(session, "create role holdfast_test_maker", "grant create on schema public to holdfast_test_maker")
    try:
        run(
            session,
            "create table seen (who name)",
            "grant insert, select on seen to public",
            "set role holdfast_test_maker",
        )
        run(
            session,
            "create function taken() returns bool language plpgsql as "
            "$$ begin insert into public.seen values (current_user); return true; end $$",
        )
        for name in ("pg_class", "pg_namespace", "pg_index", "pg_publication", "pg_publication_rel", "pg_depend"):
            run(session, f"create temp view {name} as select * from pg_catalog.{name} where public.taken()")
        run(session, "create table t (id int primary key)", "reset role")
        assert session.execute("select who from public.seen").fetchall() == []
        assert published(session) == noted(session) == {"t"}
    finally:
        run(session, "reset role", "drop owned by holdfast_test_maker cascade", "drop role holdfast_test_maker")


def test_nobody_waits_for_a_transaction_that_makes_tables(session: Connection, address: Address) -> None:
    with connect(address) as other, other.transaction():
        run(other, "create table public.first (id int primary key)")
        with session.transaction():
            run(session, "set local statement_timeout = '30s'", "create table second (id int primary key)")
    assert published(session) == noted(session) == {"first"}


def test_a_statement_goes_on_where_a_table_cannot_be_published(session: Connection) -> None:
    run(session, "drop table holdfast_published.entered", "create table t (id int primary key)")
    assert published(session) == set()
    assert not new_tables.in_force(session)


@pytest.mark.parametrize(
    "change",
    [
        "alter event trigger holdfast_publish disable",
        "alter event trigger holdfast_publish enable",
        "create or replace function holdfast_published.publish() returns event_trigger language plpgsql as 'begin end'",
        "alter function holdfast_published.publish() security invoker",
        "alter function holdfast_published.publish() set search_path = pg_catalog",
        "alter table holdfast_published.entered owner to pg_database_owner",
        "alter schema holdfast_published owner to pg_database_owner",
        "drop schema holdfast_published cascade",
    ],
)
def test_what_is_noted_counts_only_while_superusers_alone_can_note_it(session: Connection, change: str) -> None:
    run(session, "create table t (id int primary key)")
    assert noted(session) == {"t"}
    run(session, change)
    assert noted(session) == set()


def test_nothing_of_it_is_left_when_it_is_taken_back(session: Connection) -> None:
    assert new_tables.left(session)
    run(session, *new_tables.DROPPED, "create table t (id int primary key)")
    assert not new_tables.left(session)
    assert published(session) == set()
