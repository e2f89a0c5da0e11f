"""A followed database whose every transaction is known, and an archive of it: its jobs run without Spark."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from holdfast.archive import Archive, locks
from holdfast.archive.format.runs import RunRecord, read_last
from holdfast.archive.format.versions import FORMAT
from holdfast.archive.history.recovery_target import RecoveryTarget
from holdfast.archive.scan.merge_on_read import as_of
from holdfast.common.choices import Schema
from holdfast.common.lsn import parse_position
from holdfast.operations import backup_run
from holdfast.operations.requests.backup import BackupRequest
from holdfast.operations.requests.restore import RestoreRequest
from holdfast.point_in_time.composed_target import ComposedTarget
from holdfast.point_in_time.schema_choice import resolve
from holdfast.point_in_time.target_contents import catalog_of, catalog_reader, history_of, parts_of
from holdfast.postgresql.catalog.columns import Column, read_columns
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import ident, qualified
from holdfast.postgresql.values.encode import copy_statement, encode
from holdfast.storage import ObjectStore, open_store
from locking import Owner
from sparkjobs import backup, restore
from sparkjobs.driver.snapshot_reader import Limits
from tests.support.jobs.application_arguments import parse_request
from tests.support.jobs.inline_jobs import job_without_spark
from tests.support.servers.postgres import passing_database

_numbers = itertools.count(1)

_MEMORY = 64 << 20

_TABLES = """
select c.oid::int8, n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_'
order by 2, 3
"""


_END_OF_LOG = """
select (case when (at - '0/0')::bigint % size in (24, 40) then at - (at - '0/0')::bigint % size else at end)::text
from pg_current_wal_insert_lsn() at, (select current_setting('wal_block_size')::int) as s(size)
"""


@dataclass(frozen=True)
class Known:
    """The rows of a table, without generated columns.

    :param columns: type by number.
    :param rows: text by number, in order.
    """

    label: str
    columns: Mapping[int, str]
    rows: Sequence[Mapping[int, str | None]]

    def only(self, numbers: Sequence[int]) -> list[tuple[str | None, ...]]:
        """Return the rows by some of their columns, in order."""
        return sorted((tuple(row[number] for number in numbers) for row in self.rows), key=repr)


Everything = dict[int, Known]
"""The tables of a database, by oid."""


def known(session: psycopg.Connection[Any]) -> Everything:
    """Return all rows of a database, as they are now, as the server itself writes their values."""
    session.execute("begin isolation level repeatable read")
    session.execute("set local search_path = ''")
    tables = session.execute(_TABLES).fetchall()
    columns = read_columns(session, [oid for oid, _, _ in tables])
    found = {}
    for oid, schema, name in tables:
        plain = [column for column in columns[oid] if not column.generated]
        found[oid] = _known(session, f"{schema}.{name}", qualified(schema, name), plain)
    session.execute("commit")
    return found


def _known(session: psycopg.Connection[Any], label: str, table: str, columns: Sequence[Column]) -> Known:
    values = ", ".join(f"{ident(column.name)}::text" for column in columns)
    numbers = [column.number for column in columns]
    rows = session.execute(f"select array[{values}]::text[] from only {table}".encode()).fetchall()
    return Known(
        label,
        {column.number: column.type for column in columns},
        [dict(zip(numbers, row, strict=True)) for (row,) in rows],
    )


@dataclass
class Followed:
    """A database and the archive of its backups.

    :param moments: a position behind each transaction that `run` ran, and all rows then.
    :ivar _seen: temporary tables, by their columns.
    """

    address: Address
    store: ObjectStore
    held: locks.HeldLocks
    moments: list[tuple[str, Everything]] = field(default_factory=list)
    _seen: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.session = connect(self.address)
        self.session.execute("set search_path = public")

    def make(self, statements: Iterable[str | Sequence[str]]) -> None:
        """Run transactions, each of one statement or several, before a backup: their moments are never restored."""
        for statement in statements:
            self._transact([statement] if isinstance(statement, str) else statement)
        self.moments.clear()

    def run(self, *statements: str) -> str:
        """Run statements in one transaction; returns a position behind it."""
        self._transact(statements)
        return self.note()

    def _transact(self, statements: Iterable[str]) -> None:
        self.session.execute("begin")
        for statement in statements:
            self.session.execute(statement.encode())
        self.session.execute("commit")

    def note(self) -> str:
        """Note all rows as they are now; returns the position they stand for.

        Behind the header of a page it would be the next block's, if one ends before that.
        """
        row = self.session.execute(_END_OF_LOG).fetchone()
        assert row is not None
        position: str = row[0]
        self.moments.append((position, known(self.session)))
        return position

    def back_up(self, kind: str = "changes", *arguments: str, connections: int | None = None) -> dict[str, Any]:
        """Back up, and return what the run says."""
        run = f"run-{next(_numbers)}"
        wanted = parse_request(BackupRequest, ["--source", "shop", "--kind", kind, *arguments])
        choice = backup.Choice(wanted.tables, wanted.exclude)

        def attempt(more: Mapping[str, str]) -> str:
            with job_without_spark(self.store, self.held, run, "source", self.address, more=more) as job:
                job.log.result = backup.back_up(
                    job, "shop", choice, limits=Limits(connections), quorum_request=wanted.quorum_request
                )
            return ""

        backup_run.run_to_the_end(self.store, run, self.address, request=wanted, attempt=attempt)
        record = read_last(self.store, run)
        assert isinstance(record, RunRecord)
        assert record.result is not None
        return record.result

    def restore(
        self,
        at: str,
        target: Address,
        *globs: str,
        schema: Schema = "auto",
        strict: bool = False,
        data_only: bool = False,
    ) -> dict[str, Any]:
        """Restore into a database, and return what the run says."""
        wish = RestoreRequest(at=at, tables=globs, schema_choice=schema, strict=strict, data_only=data_only)
        run = f"run-{next(_numbers)}"
        with job_without_spark(self.store, self.held, run, "target", target) as job:
            return restore.restore(job, wish)

    def archive(self) -> Archive:
        """Return the archive as it is now."""
        return Archive.open(self.store)

    def moment(self, at: str, schema: Schema = "auto") -> RecoveryTarget:
        """Return what brings the database to a moment."""
        return resolve(self.archive().state, self.store, "shop", at, schema)

    def table_at(self, moment: RecoveryTarget, table: Table) -> Known:
        """Return a table's rows at a moment, out of the archive."""
        parts = parts_of(catalog_reader(self.store), moment, catalog_of(self.store, moment))[0][str(table.oid)]
        columns = [column for column in table.columns if not column.generated]
        with tempfile.TemporaryDirectory(prefix="holdfast-test-") as spill:
            history = history_of(parts, table)
            batches = list(as_of(self.store, history, memory_bytes=_MEMORY, spill=Path(spill)))
        return self._as_text(table.label, columns, batches)

    def tables_at(self, moment: RecoveryTarget) -> Everything:
        """Return all rows at a moment, out of the archive: of the tables that it has rows of."""
        catalog = catalog_of(self.store, moment)
        there, _ = parts_of(catalog_reader(self.store), moment, catalog)
        return {table.oid: self.table_at(moment, table) for table in catalog.with_rows() if str(table.oid) in there}

    def _as_text(self, label: str, columns: Sequence[Column], batches: Sequence[pa.RecordBatch]) -> Known:
        """Let the server write the values; those of types of one's own are text already.

        It does so in a table that stays for others of the same columns: to make one is what this takes its time for.
        One with a domain goes at once, since what its test does to the domain would be done to the table.
        """
        types = [column.type if column.base_schema == "pg_catalog" else "text" for column in columns]
        defined = ", ".join(f"{ident(column.name)} {kind}" for column, kind in zip(columns, types, strict=True))
        if (table := self._seen.get(defined)) is None:
            table = self._seen[defined] = f"pg_temp.holdfast_seen_{len(self._seen)}"
            self.session.execute(f"create temp table {table} ({defined})".encode())
        try:
            with self.session.cursor().copy(copy_statement(table, columns).encode()) as copy:
                for batch in batches:
                    copy.write(encode(columns, batch))
            return _known(self.session, label, table, columns)
        finally:
            if any("." in kind for kind in types):
                self.session.execute(f"drop table {table}".encode())
                del self._seen[defined]
            else:
                self.session.execute(f"delete from {table}".encode())


@contextmanager
def open_followed(address: Address, place: Path | str, number: int = FORMAT) -> Iterator[Followed]:
    """Make an archive for a database, and hold its locks.

    :param place: a folder, or a URL.
    :param number: the archive's format.
    """
    store = Archive.create(open_store(str(place)), name="shop", number=number).store
    with locks.acquire(store, "backup", sources=["shop"], owner=Owner(), purpose="test", wait=0) as held:
        followed = Followed(address, store, held)
        try:
            yield followed
        finally:
            followed.session.close()


@contextmanager
def followed_by_all(
    follow: Callable[[Address, Path, pytest.MonkeyPatch], AbstractContextManager[Followed]],
    server: PostgresServer,
    place: Path,
) -> Iterator[Followed]:
    """Follow a database that no single test has; in the end it goes, with what was patched for it."""
    with (
        passing_database(server) as address,
        pytest.MonkeyPatch.context() as patch,
        follow(address, place, patch) as followed,
    ):
        yield followed


def agree(
    followed: Followed,
    first: int = 0,
    exactly: Container[int] = (),
    *,
    every: int = 1,
    schemas: Sequence[Schema] = ("auto",),
) -> None:
    """Make sure that each moment is in the archive as it was.

    A table that is said to be stale is as it was at the position up to which it is said to be here. Rows of a table are
    looked at where they have just been changed, or are going to be: between two changes there is nothing to be missed.

    :param first: number of the first moment to look at.
    :param exactly: oids of tables that must not be stale.
    :param every: so many moments apart.
    :param schemas: those with which each moment is looked at.
    """
    for number in range(first, len(followed.moments), every):
        calm = calm_at(followed, number) if every == 1 and number > first else ()
        for schema in schemas:
            agree_at(followed, number, exactly, schema, calm)


def calm_at(followed: Followed, number: int) -> set[int]:
    """Return the tables that are the same in the moments before and behind one, which has both."""
    around = [rows for _, rows in followed.moments[max(0, number - 1) : number + 2]]
    if len(around) < 3:
        return set()
    before, now, behind = around
    return {oid for oid, rows in now.items() if before.get(oid) == rows == behind.get(oid)}


def agree_at(
    followed: Followed,
    number: int,
    exactly: Container[int] = (),
    schema: Schema = "auto",
    calm: Container[int] = (),
    at: str = "",
) -> Everything:
    """Make sure that a moment is in the archive as it was, as above; returns what is there.

    :param number: of the moment.
    :param calm: oids of tables whose rows are not looked at, unless they are stale.
    :param at: what else names it, such as a mark.
    """
    position, truth = followed.moments[number]
    moment = followed.moment(at or f"lsn:{position}", schema)
    catalog = catalog_of(followed.store, moment)
    parts, _ = parts_of(catalog_reader(followed.store), moment, catalog)
    there = {table.oid: table for table in catalog.with_rows() if str(table.oid) in parts}
    looked = {oid for oid in there if oid not in calm or parts[str(oid)].stale}
    got = {oid: followed.table_at(moment, there[oid]) for oid in looked}
    for oid, table in got.items():
        stale = parts[str(oid)].stale
        upto = parts[str(oid)].upto
        then = [each for at, each in followed.moments if parse_position(at) <= upto][-1] if stale else truth
        if oid not in then:
            assert moment.approximate, f"{table.label} is not there any more at {position}"
            continue
        where = f"{table.label} at {position}: {stale}"
        _is_same(table, then[oid], exact=not moment.approximate and not stale, where=where)
    for oid in truth:
        if oid in exactly:
            assert oid in there, f"{truth[oid].label} is missing at {position}"
            assert not parts[str(oid)].stale, f"{truth[oid].label} at {position}: {parts[str(oid)].stale}"
    return got


def _is_same(got: Known, expected: Known, *, exact: bool, where: str) -> None:
    common = [number for number, kind in expected.columns.items() if got.columns.get(number) == kind]
    if exact:
        assert got.columns == expected.columns, where
    assert got.only(common) == expected.only(common), where


def packs(followed: Followed) -> set[str]:
    """Return the keys of the packs that are stored."""
    return {str(path.relative_to(followed.store.url)) for path in Path(followed.store.url).rglob("*.pack")}


def comes_back(followed: Followed, at: str, target: Address) -> dict[str, Any]:
    """Restore a moment, make sure that all is as the archive says, and return what the run says."""
    said = followed.restore(at, target)
    with connect(target) as session:
        found = {table.label: table for table in known(session).values()}
    for table in followed.tables_at(followed.moment(at)).values():
        restored = found[table.label]  # columns are in their order, but have other numbers
        assert restored.only(sorted(restored.columns)) == table.only(sorted(table.columns)), (at, table.label)
    return said


def is_as_the_source(followed: Followed, target: Address) -> None:
    """Make sure that a database to which the newest moment was brought back is what the source is now.

    Generated columns are looked at, too; tables that are stale are not, nor those that were made since the last full
    backup and cannot be followed.
    """
    there = followed.moment("latest").tables()
    stale = {oid for oid, parts in there.items() if parts.stale}
    newest = max(followed.archive().state.blocks.values(), key=lambda placed: placed.number).block.stream
    not_followed = newest.not_followed if newest else {}
    with connect(target) as session:
        restored = {label: rows for _, label, rows in _written(session)}
    for oid, label, rows in _written(followed.session):
        is_older = str(oid) in stale or (str(oid) not in there and label in not_followed)
        assert is_older or restored[label] == rows, label


def _written(session: psycopg.Connection[Any]) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the tables of a database with their names and their rows as texts, in order."""
    for oid, schema, name in session.execute(_TABLES).fetchall():
        table = qualified(schema, name)
        found = session.execute(f'select t::text collate "C" from only {table} t order by 1'.encode()).fetchall()
        yield oid, f"{schema}.{name}", [row for (row,) in found]


def doubtful_tables(followed: Followed, moment: RecoveryTarget, there: Iterable[str] = ()) -> set[str]:
    """Return the tables of a moment that may have had other columns, by all of their names.

    :param there: what there was. A name that neither backup has is that of such a table, which had it in between.
    """
    if not isinstance(moment, ComposedTarget) or not moment.composed.doubtful:
        return set()
    doubtful = moment.composed.doubtful
    read = catalog_reader(followed.store)
    catalogs = [read(placed.block.catalog) for placed in moment.pair]
    known = {table.label for catalog in catalogs for table in catalog.tables}
    found = {table.label for catalog in catalogs for table in catalog.tables if table.oid in doubtful}
    return found | set(there) - known
