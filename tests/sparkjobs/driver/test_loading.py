"""Rows of a restore come into their tables on a real server, whatever these ask of them; Spark runs nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import psycopg
import pyarrow as pa
import pytest

from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.format.document import FileRecord
from holdfast.archive.history.recovery_target import TableParts
from holdfast.common.errors import DamagedError
from holdfast.postgresql.catalog.catalog_queries import read_tables
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.parallel_sessions import Sessions
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.plan import ledger
from holdfast.postgresql.restore.rows.staging_tables import MisfitError
from holdfast.postgresql.values.content_hash import digest
from holdfast.postgresql.values.stored_columns import schema_of
from holdfast.storage import ObjectStore, open_store
from sparkjobs.driver.application import Job
from sparkjobs.driver.loading import Loading, files_of
from sparkjobs.tasks.table_records import table_record

pytestmark = pytest.mark.service

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CATALOG = FileRecord(path="data/catalog", size=1, sha256="0" * 64)

Given = Sequence[tuple[Table, TableParts]]


class Here:
    """Stands for a job: its tasks run one after the other, in this thread."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.said: list[str] = []
        self.steps: list[str] = []

    def map(
        self, step: str, tasks: Sequence[Any], work: Callable[..., Iterator[Any]], *, estimated_rows: int
    ) -> list[Any]:
        self.steps += [step] * len(tasks)
        return [found for task in tasks for found in work(task, lambda rows, size: None)]

    def check(self) -> None:
        """Let the work go on."""

    def say(self, *words: str) -> None:
        self.said += words


@pytest.fixture
def job(tmp_path: Path) -> Here:
    return Here(open_store(str(tmp_path / "archive")))


@pytest.fixture
def session(address: Address) -> Iterator[psycopg.Connection[Any]]:
    with connect(address) as opened:
        ledger.create_ledger(opened, ledger.TargetClaim("archive", "block", (), (), commit=1, run="run"))
        yield opened


def archived(job: Here, table: Table, *files: Sequence[int]) -> TableParts:
    """Write rows of a table, whose only column that is not generated is a number, as a snapshot has them."""
    columns = [column for column in table.columns if not column.generated]
    schema, records = schema_of(columns), []
    for number, ids in enumerate(files):
        batch = pa.record_batch([pa.array(ids, pa.int32())], schema=schema)
        [record] = write_parquet(job.store, f"data/{table.name}/{number}", schema, [batch])
        records.append(record.model_copy(update={"digest": str(digest(columns, batch))}))
    base = table_record(table, records)
    return TableParts(base=base, catalog=CATALOG, since=1, begun=NOON, upto=1, as_of=NOON)


def loading(job: Here, address: Address, session: psycopg.Connection[Any], given: Given, **more: Any) -> Loading:
    older = more.pop("older", ())
    return Loading(cast("Job", job), address, session, given, older, "UTF8", **more)


def ran(loading: Loading, address: Address) -> Loading:
    with Sessions(address, 2) as sessions:
        loading.run(sessions)
        assert loading.compare(sessions, sessions) == ()
    return loading


def tables(session: psycopg.Connection[Any], *statements: str) -> dict[str, Table]:
    for statement in statements:
        session.execute(statement.encode())
    return {table.name: table for table in read_tables(session)}


def ids(session: psycopg.Connection[Any], name: str) -> list[int]:
    return [row[0] for row in session.execute(f"select id from public.{name} order by 1".encode())]


def test_only_files_with_rows_are_loaded(job: Here, session: psycopg.Connection[Any]) -> None:
    t = tables(session, "create table public.t (id int)")["t"]
    parts = archived(job, t, [1, 2], [], [3])
    assert [file.rows for _, file in files_of([(t, parts)])] == [2, 1]


def test_what_is_loaded_is_missing_no_more_and_what_was_expected(
    job: Here, address: Address, session: psycopg.Connection[Any]
) -> None:
    t = tables(session, "create table public.t (id int)")["t"]
    given = [(t, archived(job, t, [1, 2], [3]))]
    work = loading(job, address, session, given)
    assert len(work.missing(ledger.read_steps(session))) == 2
    ran(work, address)
    assert ids(session, "t") == [1, 2, 3]
    assert work.expected()[t.oid].rows == 3
    assert (work.missing(ledger.read_steps(session)), list(work.left_out())) == ([], [])
    session.execute("update public.t set id = 9 where id = 3")
    with (
        Sessions(address, 2) as sessions,
        pytest.raises(DamagedError, match=r"public\.t has 3 rows with other contents"),
    ):
        work.compare(sessions, sessions)


def test_a_condition_that_asks_another_table_is_asked_again_once_that_is_there(
    job: Here, address: Address, session: psycopg.Connection[Any]
) -> None:
    found = tables(
        session,
        "create table public.z_known (id int)",
        "create function public.is_known(int) returns bool language sql as "
        "'select exists (select from public.z_known where id = $1)'",
        "create table public.a (id int check (public.is_known(id)))",
    )
    given = [(found[name], archived(job, found[name], [1, 2])) for name in ("a", "z_known")]
    work = ran(loading(job, address, session, given, is_strict=True), address)
    assert (ids(session, "a"), list(work.left_out())) == ([1, 2], [])


def test_a_function_is_lent_a_path_where_that_lets_rows_in(
    job: Here, address: Address, session: psycopg.Connection[Any]
) -> None:
    found = tables(
        session,
        "create table public.known (id int)",
        "insert into public.known values (1)",
        "create function public.is_known(int) returns bool language plpgsql as "
        "$$ begin return exists (select from known where id = $1); end $$",
        "create table public.a (id int check (public.is_known(id)))",
    )
    ran(loading(job, address, session, [(found["a"], archived(job, found["a"], [1]))]), address)
    assert ids(session, "a") == [1]
    paths = "select proconfig from pg_proc where proname = 'is_known'"
    assert session.execute(paths).fetchone() == (["search_path=public"],)


def test_rows_come_first_and_a_condition_that_they_break_is_named(
    job: Here, address: Address, session: psycopg.Connection[Any]
) -> None:
    t = tables(session, "create table public.t (id int constraint positive check (id > 0))")["t"]
    given = [(t, archived(job, t, [-1, 1]))]
    with Sessions(address, 2) as sessions, pytest.raises(MisfitError, match='violates check constraint "positive"'):
        loading(job, address, session, given, is_strict=True).run(sessions)
    assert ids(session, "t") == []
    work = ran(loading(job, address, session, given), address)
    assert ids(session, "t") == [-1, 1]
    [left] = work.left_out()
    assert left.what == "CHECK positive of public.t"
    assert "public.t has conditions that rows break: these come together aside first" in job.said
    checked = session.execute("select convalidated from pg_constraint where conname = 'positive'").fetchall()
    assert checked == [(False,)]


def test_rows_of_another_moment_leave_the_condition_out(
    job: Here, address: Address, session: psycopg.Connection[Any]
) -> None:
    t = tables(session, "create table public.t (id int constraint positive check (id > 0))")["t"]
    work = ran(loading(job, address, session, [(t, archived(job, t, [-1]))], older={t.oid}), address)
    [left] = work.left_out()
    assert left.statement.startswith("alter table public.t add constraint")
    assert session.execute("select count(*) from pg_constraint where conname = 'positive'").fetchone() == (0,)


def test_a_generated_column_that_is_computed_otherwise_is_named_and_nothing_is_damaged(
    job: Here, address: Address, session: psycopg.Connection[Any]
) -> None:
    t = tables(session, "create table public.t (id int, twice int generated always as (id * 2) stored)")["t"]
    schema = schema_of(t.columns)
    batch = pa.record_batch([pa.array([1], pa.int32()), pa.array([3], pa.int32())], schema=schema)
    [file] = write_parquet(job.store, "data/t/0", schema, [batch])
    base = table_record(t, [file.model_copy(update={"digest": str(digest(t.columns, batch))})])
    parts = TableParts(base=base, catalog=CATALOG, since=1, begun=NOON, upto=1, as_of=NOON)
    work = loading(job, address, session, [(t, parts)])
    with Sessions(address, 2) as sessions:
        work.run(sessions)
        [told] = work.compare(sessions, sessions)
    assert told.what == "values of generated column public.t.twice"
    assert job.steps[-1] == "comparing columns"
