"""The databases that are measured: one large table, and one of a few large values."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from holdfast.postgresql.connection.server import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = {
    "autovacuum": "off",  # it would wake up in the middle of somebody's turn
    "checkpoint_timeout": "1h",
    "effective_io_concurrency": "0",
    "maintenance_work_mem": "256MB",
    "max_wal_size": "16GB",
    "shared_buffers": "512MB",
}
"""The server's settings beside its defaults; the throw-away server also runs without fsync."""

SOURCE = "bench_source"
TABLE = "public.sales"
LARGE = "bench_large"

_COLUMNS = """
create table public.sales (
    id bigint not null, customer bigint not null, product int not null, quantity int,
    price numeric(12,2) not null, total numeric(12,2) not null, note text,
    sold_at timestamptz not null, day date not null, paid boolean not null
)
"""
_KEY = "alter table public.sales add primary key (id)"
# Everything follows from the row's number, so that the same rows come out each time.
_ROWS = """
insert into {table}
select i, h & 262143, (h >> 20) & 16383, case when h & 31 > 0 then (h >> 34) & 63 end,
    ((h >> 8) & 1048575) / 100.0, ((h >> 12) & 268435455) / 100.0,
    case when h & 15 > 0 then format('order %%s, parcel %%s from depot %%s by road', i, substr(md5(i::text), 1, 16),
        (array['Lisbon', 'Hamburg', 'Gdansk', 'Lyon', 'Bari', 'Cork', 'Turku', 'Varna'])[1 + (h >> 40 & 7)]) end,
    timestamptz '2020-01-01 00:00+00' + i * interval '31 seconds' + (h & 16777215) * interval '1 microsecond',
    date '2020-01-01' + (i * 31 / 86400)::int, h & 64 = 0
from (
    select i, hashint8extended(i, 7) & 9223372036854775807
    from generate_series(%(first)s::bigint, %(last)s::bigint) i
) r(i, h)
"""
_LARGE_TABLE = "create table public.papers (id int primary key, body text, picture bytea)"
# Text that PostgreSQL can compress, and bytes that nothing can.
_LARGE_TEXT = "insert into public.papers select %(id)s, repeat(md5(%(id)s::text), %(size)s / 32), null"
_LARGE_BYTES = """
insert into public.papers select %(id)s, null, string_agg(sha512((%(id)s || '.' || n)::bytea), '')
from generate_series(1, %(size)s / 64) n
"""


@dataclass(frozen=True)
class TableFacts:
    """What was made.

    :param size: bytes of the table's heap; `pages` of it.
    """

    rows: int
    size: int
    pages: int


@contextmanager
def server() -> Iterator[PostgresServer]:
    """A throw-away server that is gone afterwards, with all of its files."""
    with PostgresServer(settings=SETTINGS) as running:
        yield running


def create_source(running: PostgresServer, rows: int) -> TableFacts:
    """Create and fill the large table, and let it settle: hint bits set, statistics there, pages written."""
    create_database(running, SOURCE)
    with psycopg.connect(running.conninfo(SOURCE), autocommit=True) as connection:
        connection.execute(_COLUMNS)
        insert_rows(connection, 1, rows)
        connection.execute(_KEY)
        connection.execute("vacuum (freeze, analyze) public.sales")
        found = connection.execute(
            "select pg_relation_size(%(table)s), pg_relation_size(%(table)s) / current_setting('block_size')::int",
            {"table": TABLE},
        ).fetchone()
    settle(running)
    size, pages = found or (0, 0)
    return TableFacts(rows, size, pages)


def insert_rows(connection: psycopg.Connection[tuple[Any, ...]], first: int, last: int, *, table: str = TABLE) -> None:
    """Insert rows, by their numbers, in one transaction."""
    connection.execute(_ROWS.format(table=table).encode(), {"first": first, "last": last})


def create_large(running: PostgresServer, rows: int, value_bytes: int) -> None:
    """Create a table of large values: half of them text, half of them bytes."""
    create_database(running, LARGE)
    with psycopg.connect(running.conninfo(LARGE), autocommit=True) as connection:
        connection.execute(_LARGE_TABLE)
        for number in range(rows):
            insert = _LARGE_BYTES if number % 2 else _LARGE_TEXT
            connection.execute(insert, {"id": number, "size": value_bytes})


def create_table(running: PostgresServer, database: str) -> None:
    """Create the large table, without rows and without its key."""
    with psycopg.connect(running.conninfo(database), autocommit=True) as connection:
        connection.execute(_COLUMNS)


def add_key(running: PostgresServer, database: str) -> None:
    """Create the table's primary key, and give the planner statistics."""
    with psycopg.connect(running.conninfo(database), autocommit=True) as connection:
        connection.execute(_KEY)
        connection.execute("analyze")


def count(running: PostgresServer, database: str, table: str = TABLE) -> int:
    """Count the rows of a table."""
    with psycopg.connect(running.conninfo(database)) as connection:
        found = connection.execute(f"select count(*) from {table}".encode()).fetchone()
    return int(found[0]) if found else 0


def create_database(running: PostgresServer, name: str) -> None:
    """Create an empty database."""
    _administer(running, sql.SQL("create database {}").format(sql.Identifier(name)))


def drop_database(running: PostgresServer, name: str) -> None:
    """Drop a database if it is there."""
    _administer(running, sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def drop_slots(running: PostgresServer, name: str) -> None:
    """Drop the slots of a database; nobody may read them any more."""
    query = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = {}"
    _administer(running, sql.SQL(query).format(sql.Literal(name)))


def settle(running: PostgresServer) -> None:
    """Write out what is dirty, so that nobody pays for what was done before their turn."""
    _administer(running, sql.SQL("checkpoint"))


def _administer(running: PostgresServer, statement: sql.SQL | sql.Composed) -> None:
    with psycopg.connect(running.conninfo(), autocommit=True) as connection:
        connection.execute(statement)
