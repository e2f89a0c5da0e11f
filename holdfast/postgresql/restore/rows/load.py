"""Rows loaded into a target, each file exactly once, and compared with the archive."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from holdfast.common.errors import BusyError, DamagedError, HoldfastError, RefusedError
from holdfast.postgresql.catalog.large_objects import LARGE_OBJECTS, put_pages
from holdfast.postgresql.connection.session import connect, is_refusal, refusal_of
from holdfast.postgresql.connection.session_errors import words
from holdfast.postgresql.connection.sql import qualified
from holdfast.postgresql.restore.plan.ledger import note_left_out, note_result, once, read_ledger, read_left_out
from holdfast.postgresql.restore.plan.plan import NotRestored
from holdfast.postgresql.restore.rows.generated_columns import column_sets
from holdfast.postgresql.restore.rows.staging_tables import not_taken, step_of
from holdfast.postgresql.values.content_hash import ContentHash, digest, hash_select
from holdfast.postgresql.values.encode import copy_in
from holdfast.postgresql.values.schema_evolution import conform, is_same_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from holdfast.postgresql.catalog.catalog import Catalog, NamedRelation
    from holdfast.postgresql.catalog.columns import Column
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.parallel_sessions import Sessions
    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.restore.rows.generated_columns import Apart

_ADVISORY_KEY = 0x486F6C6466617374  # "Holdfast"

_HOLDER = """
select a.pid, coalesce(pg_catalog.host(a.client_addr), 'the server itself'),
  pg_catalog.to_char(a.backend_start at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS UTC')
from pg_catalog.pg_locks l join pg_catalog.pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.classid = %s::oid and l.objid = %s::oid
  and l.database = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())
"""

_ENDING = "1s"
"""So long the session of a restore that has ended may go on holding its lock."""

"""Objects that belong to no extension, nor to a type of one.

A schema is nothing by itself, unless others were let in: some were made to put extensions in, and some extensions
(postgis_tiger_geocoder) leave one that does not belong to them.
"""


@contextmanager
def hold_target(address: Address) -> Iterator[Connection]:
    """Keep other restores out of a database while the block runs.

    The lock is an advisory one on a session of its own: a commit of the archive cannot fence a restore.
    """
    with connect(address) as session:
        session.execute(f"set lock_timeout = '{_ENDING}'")
        try:
            session.execute("select pg_catalog.pg_advisory_lock(%s)", (_ADVISORY_KEY,))
        except psycopg.errors.LockNotAvailable:
            left = read_ledger(session)  # that of the other one, once it has planned
            run = f" (run {left.claim.run})" if left else ""
            raise BusyError(
                f"another restore is at work in {address.url}{run}, {_holder(session)}: wait for it, or choose another "
                "target"
            ) from None
        session.execute("reset lock_timeout")
        yield session


def _holder(session: Connection) -> str:
    found = session.execute(_HOLDER, (_ADVISORY_KEY >> 32, _ADVISORY_KEY & 0xFFFFFFFF)).fetchone()
    return f"in session {found[0]} of {found[1]}, since {found[2]}" if found else "in a session that has just ended"


def check_target(session: Connection, address: Address, catalog: Catalog) -> None:
    """Refuse a target that is older, or has another encoding than the source."""
    version = session.info.server_version
    if version // 10000 < catalog.server_version // 10000:
        raise RefusedError(
            f"{address.url} is PostgreSQL {version // 10000}; the backup is of {catalog.server_version // 10000}, "
            "whose schema an older server does not understand: restore into the same or a newer version"
        )
    row = session.execute("show server_encoding").fetchone()
    if row and row[0] not in ("UTF8", catalog.encoding):
        raise RefusedError(
            f"{address.url} is encoded in {row[0]}, the backup is of a {catalog.encoding} database: create the target "
            f"with createdb --encoding={catalog.encoding} --template=template0"
        )


def load_file(
    session: Connection, table: Table, file: str, batches: Iterable[pa.RecordBatch], *, label: str = ""
) -> int:
    """Load a file's rows once, in one transaction; return rows loaded.

    Rows of an older form of the table are brought to the one it has, and the ledger notes their content hash. A reply
    lost at COMMIT makes the caller try again, and the ledger then shows the file as loaded.

    :param label: of the table, for people, where the rows go aside first.
    :raises MisfitError: the table does not take these rows: they break a condition, or what it computes of them fails.
    """
    name, step = qualified(table.table_schema, table.name), step_of(table, file)
    try:
        with once(session, step) as is_new, session.cursor() as cursor:
            if not is_new:
                return 0
            cursor.execute("SET LOCAL synchronous_commit = off")
            if table.oid == LARGE_OBJECTS:
                return put_pages(cursor, batches)
            converted = [ContentHash()]
            rows = copy_in(cursor, name, table.columns, (_brought(table, batch, converted) for batch in batches))
            if converted[0].rows:
                note_result(session, step, str(converted[0]))
            return rows
    except psycopg.Error as error:
        not_taken(session, f"{label or table.label} does not take its rows", error)


def _brought(table: Table, batch: pa.RecordBatch, converted: list[ContentHash]) -> pa.RecordBatch:
    """Return a batch in a table's form; add the hash of one that is converted."""
    if is_same_schema(batch.schema, table.columns):
        return batch
    brought = conform(batch, table.columns)
    converted[0] += digest(table.columns, brought)
    return brought


_REACHING = """
with recursive views (name, oid) as (
  select name, pg_catalog.to_regclass(name)::oid from pg_catalog.unnest(%s::text[]) name
  where pg_catalog.to_regclass(name) is not null
), reads (name, class, object) as (
  select name, 'pg_catalog.pg_class'::regclass::oid, oid from views
  union select r.name, found.class, found.object from reads r, lateral (
    select d.refclassid, d.refobjid from pg_catalog.pg_class c
      join pg_catalog.pg_rewrite w on w.ev_class = c.oid
      join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_rewrite'::regclass and d.objid = w.oid
      where r.class = 'pg_catalog.pg_class'::regclass and c.oid = r.object
        and (c.relkind = 'v' or c.oid = (select v.oid from views v where v.name = r.name))
    union all select r.class, i.inhrelid from pg_catalog.pg_inherits i
      where r.class = 'pg_catalog.pg_class'::regclass and i.inhparent = r.object
    union all select d.refclassid, d.refobjid from pg_catalog.pg_depend d
      where r.class = 'pg_catalog.pg_proc'::regclass and d.classid = r.class and d.objid = r.object
  ) found (class, object)
  where found.class in ('pg_catalog.pg_class'::regclass, 'pg_catalog.pg_proc'::regclass)
)
select r.name, coalesce(min(f.oid::regclass::text), '') from reads r
left join pg_catalog.pg_class f on r.class = 'pg_catalog.pg_class'::regclass and f.oid = r.object and f.relkind = 'f'
group by 1
"""
"""The materialised views that are there, and which foreign table each reads: itself, by views, or by functions that say
what they read.
"""


def refresh_views(sessions: Sessions, views: Sequence[NamedRelation]) -> tuple[NotRestored, ...]:
    """Fill the materialised views that were filled, those that others read first.

    What they hold is not in the archive. Where their query fails, or a unique index of theirs does not take what comes,
    they are tried again once others are filled: a function may read these. What fails then stays empty, and is returned
    with the server's words. So is what reads a foreign table: its server is not asked.
    """
    named_views = {qualified(view.relation_schema, view.name): view for view in views}
    (there,) = sessions.run([list(named_views)], _reaching) if views else ({},)
    names = {name: view for name, view in named_views.items() if name in there}  # the others were left out
    reaching = {name: table for name, table in there.items() if table}
    waiting, found = [name for name in names if name not in reaching], list[str]()
    while waiting:
        found = sessions.run(waiting, _refresh, at_once=1)
        failed = [name for name, error in zip(waiting, found, strict=True) if error]
        if len(failed) == len(waiting):
            break
        waiting = failed
    why = dict(zip(waiting, found, strict=True)) if waiting else {}
    why |= {name: f"it reads foreign table {table}, whose server is not asked" for name, table in reaching.items()}
    return tuple(empty_view(view, why[name]) for name, view in names.items() if name in why)


def empty_view(view: NamedRelation, reason: str) -> NotRestored:
    """Return a materialised view that stays empty, with the statement that fills it."""
    name = qualified(view.relation_schema, view.name)
    what = f"rows of materialized view {view.relation_schema}.{view.name}"
    return NotRestored(what, reason, f"refresh materialized view {name};")


def _reaching(session: Connection, names: Sequence[str]) -> dict[str, str]:
    """Return the views that are there, each with a foreign table that it reads, or ""."""
    return dict(session.execute(_REACHING, (list(names),)).fetchall())


def _refresh(session: Connection, name: str) -> str:
    """Fill a materialised view; return the reason if that is refused."""
    try:
        with once(session, f"refresh {name}") as is_new:
            if is_new:
                session.execute("set local row_security = on")  # as its owner, it has what policies let that one see
                session.execute(f"refresh materialized view {name}".encode())
    except psycopg.Error as error:
        if not is_refusal(session, error):
            raise
        return words(error)
    return ""


_ANALYZED_AT_ONCE = 50
"""Tables whose statistics one transaction gathers, at most: each by its own takes four times as long."""

_SHARES = 16
"""Into which few tables are divided, so that sessions work beside each other; a restore that goes on has the same."""


def most_locked(session: Connection) -> int:
    """Return how many tables a restore may lock at once: a quarter of the server's locks, which all sessions share.

    Source: PostgreSQL's documentation of max_locks_per_transaction.
    """
    [(most,)] = session.execute(
        "select current_setting('max_locks_per_transaction')::int"
        " * (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int) / 4"
    ).fetchall()
    return int(most)


def analyze(sessions: Sessions, relations: Sequence[tuple[str, str]]) -> tuple[NotRestored, ...]:
    """Give the planner statistics of these relations, by schema and name.

    :return: those that have none, with the server's words: there are values that PostgreSQL itself cannot, such as
        ranges of very large numbers, and statistics of expressions that fail; and more locks than the server has.
    """
    size = min(len(relations) // _SHARES + 1, _ANALYZED_AT_ONCE)
    some = [relations[start : start + size] for start in range(0, len(relations), size)]
    return tuple(each for left in sessions.run(some, _gather) for each in left)


def _gather(session: Connection, names: Sequence[tuple[str, str]]) -> list[NotRestored]:
    """Gather statistics once: a later try may run functions of the source with their owner's rights."""
    step = f"analyze from {qualified(*names[0])}"
    with once(session, step) as is_new:
        if is_new:
            note_left_out(session, step, refused_statistics(session, names))
        return read_left_out(session, step)


def refused_statistics(session: Connection, names: Sequence[tuple[str, str]]) -> list[NotRestored]:
    """Gather statistics of all at once; return those that have none, where that fails."""
    if _why_not(session, f"analyze {', '.join(qualified(*name) for name in names)}") is None:
        return []
    left = []
    for name in names:
        statement = f"analyze {qualified(*name)}"
        error = _why_not(session, statement)
        if error is not None and not isinstance(error, psycopg.errors.UndefinedTable):  # as its query was left out
            left.append(NotRestored(f"statistics of {'.'.join(name)}", words(error), f"{statement};"))
    return left


def _why_not(session: Connection, statement: str) -> psycopg.Error | None:
    try:
        return refusal_of(session, statement)
    except psycopg.errors.OutOfMemory as error:  # also of the table of locks
        return error


def content_hash(session: Connection, table: Table, columns: Sequence[Column] | None = None) -> ContentHash:
    """Return a table's row count and content hash, by the server; a root's include its partitions.

    :param columns: of these alone; None: of all.
    """
    encoding = session.info.parameter_status("server_encoding") or "UTF8"
    name = qualified(table.table_schema, table.name)
    query = hash_select(f"only {name}" if table.has_rows else name, columns or table.columns, encoding=encoding)
    row = session.execute(query.encode()).fetchone()
    if row is None:
        raise HoldfastError(f"the server counted nothing in {table.label}")
    return ContentHash(int(row[0]), int(row[1]))


@dataclass(frozen=True)
class Difference:
    """Difference between restored rows and the archive.

    :param tables: whose rows are compared together: one, or partitions that were loaded through one root.
    """

    tables: tuple[Table, ...]
    found: ContentHash
    wanted: ContentHash

    def __str__(self) -> str:
        what = "rows with other contents"
        if self.found.rows != self.wanted.rows:
            what = f"rows instead of {self.wanted.rows}"
        return f"{self.tables[0].label} has {self.found.rows} {what}"


def differences(
    sessions: Sessions, expected: Mapping[int, ContentHash], tables: Sequence[Table]
) -> tuple[Difference, ...]:
    """Compare every table with its expected content hash, those of one root as a whole; return the differences."""
    together: dict[tuple[str, str], list[Table]] = {}
    for table in tables:
        together.setdefault((table.table_schema, table.name), []).append(table)

    def check(session: Connection, some: Sequence[Table]) -> Difference | None:
        found = content_hash(session, some[0])
        wanted = sum((expected[each.oid] for each in some), ContentHash())
        return None if found == wanted else Difference(tuple(some), found, wanted)

    return tuple(filter(None, sessions.run([*together.values()], check)))


def check_equal(different: Sequence[Difference]) -> None:
    """Raise a DamagedError that names the tables that differ, and how."""
    if different:
        raise DamagedError(f"restored, but not equal to the archive: {'; '.join(map(str, different))}")


def hashes_apart(session: Connection, table: Table) -> Apart:
    """Return the content hashes of a table's columns as `column_sets` groups them."""
    return {name: content_hash(session, table, columns) for name, columns in column_sets(table).items()}
