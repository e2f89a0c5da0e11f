"""The database behind the archive fixtures, and how one is made when a new format is released.

    python -m tests.support.archives.archive_fixture tests/fixtures/archives/format-N
    python -m tests.support.archives.archive_fixture tests/fixtures/archives/format-N-changes changes
    python -m tests.support.archives.archive_fixture tests/fixtures/archives/format-N-maintained maintained
    python -m tests.support.archives.archive_fixture tests/fixtures/archives/format-N-packs packs
    python -m tests.support.archives.archive_fixture tests/fixtures/archives/format-N-packed-changes packed-changes

A fixture is real bytes of a released version and is never made anew: it proves that what that version
wrote can still be read and restored.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.archive import Archive
from holdfast.archive.format.checkpoint import write_checkpoint
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.storage import open_store

FIXTURES = Path(__file__).parents[2] / "fixtures" / "archives"

FIRST = """
create schema shop;
create type shop.state as enum ('open', 'paid');
create table shop.customer (id int generated always as identity primary key, name text not null);
insert into shop.customer (name) values ('Ada'), (''), ('Zoë ☃'), ('O''Hara\t"x"');
create table shop.sale (
  id bigint primary key, customer int references shop.customer, price numeric(12,2), at timestamptz, day date,
  hour time, state shop.state, more jsonb, tags text[], photo bytea, ratio float8, ok bool
);
insert into shop.sale values
  (1, 1, 12.50, '2026-03-01 12:00:00.123456+00', '2026-03-01', '24:00', 'paid', '{"a": [1, null]}', '{x,NULL,""}',
   '\\x00ff', 0.1, true),
  (2, 2, 'NaN', 'infinity', '-infinity', '00:00', 'open', null, null, '', '-Infinity', false),
  (3, null, null, '0044-03-15 12:00:00 BC', '0044-03-15 BC', null, null, null, '{}', null, '-0', null);
create table shop.empty (nothing int);
create index on shop.sale (customer);
create view shop.paid as select * from shop.sale where state = 'paid';
"""

BEYOND_TABLES = """
select lo_from_bytea(50001, repeat('a picture', 1000)::bytea), lo_create(50002);
comment on large object 50001 is 'of the shop';
create unlogged table shop.visit (id int);
insert into shop.visit select generate_series(1, 3);
"""
"""What the first two fixtures do not have yet."""

SECOND = "update shop.sale set price = 99.99 where id = 1; insert into shop.customer (name) values ('Bob')"

EXPECTED = {
    "commit:1": (4, "12.50"),
    "commit:2": (5, "99.99"),
}
"""Moment to the number of customers and the price of sale 1."""


FOLLOWED = """
create table shop.note (id int primary key, hits int, body text);
alter table shop.note alter body set storage external;
insert into shop.note values (1, 0, repeat('a', 3000)), (2, 0, repeat('b', 3000));
create table shop.path (path text, n int);
alter table shop.path replica identity full;
insert into shop.path values ('/', 1), ('/', 1), (null, 2);
"""
"""Values outside of their rows, and a table without a key that is followed."""

BEFORE_MARK = (SECOND, "update shop.note set hits = 1; delete from shop.path where n = 2; drop view shop.paid")
MARK = "halfway"
AFTER_MARK = (
    "update shop.sale set price = 7.25 where id = 2; update shop.note set id = 11 where id = 1",
    "alter table shop.customer add column born date; truncate shop.path",
    "insert into shop.customer (name, born) values ('Eve', '0044-03-15 BC'); delete from shop.customer where id = 4",
    "insert into shop.path values ('/new', 3)",
)

EXPECTED_CHANGES = {
    "commit:1": {"customer": 4, "price": "12.50", "notes": "1:0:3000 2:0:3000", "paths": 3},
    f"mark:{MARK}": {"customer": 5, "price": "99.99", "notes": "1:1:3000 2:1:3000", "paths": 2},
    "latest": {"customer": 5, "price": "99.99", "notes": "2:1:3000 11:1:3000", "paths": 1},
}
"""Moment of the archive with changes to what its tables hold: see `HELD`."""

HELD = """
select (select count(*) from shop.customer) as customer,
  (select cast(price as varchar) from shop.sale where id = 1) as price,
  (select string_agg(concat(id, ':', hits, ':', length(body)), ' ' order by id) from shop.note) as notes,
  (select count(*) from shop.path) as paths
"""
"""Asks for it, in the dialects of PostgreSQL and DuckDB."""


def make(folder: Path) -> None:
    """Make an archive of two commits with the installed version."""
    with PostgresServer() as server:
        source = Address(server.url(), server.password)
        _holdfast(source, "init", str(folder), "--name", "fixture")
        for statements in (FIRST + BEYOND_TABLES, SECOND):
            _run(source, statements)
            _holdfast(source, "backup", str(folder), "--source", source.url)


TENANTS = """
do $$ begin for n in 1..100 loop
  execute format('create table shop.tenant_%s (id int primary key)', n);
  execute format('insert into shop.tenant_%s select generate_series(1, %s)', n, n % 7);
end loop; end $$
"""
"""With these there are so many small tables that they are stored in packs."""


def make_packs(folder: Path) -> None:
    """Make an archive as `make_changes` does, whose small tables are in packs."""
    make_changes(folder, TENANTS)


FEW_TENANTS = TENANTS.replace("1..100", "1..20")
CHANGED_TENANTS = """
do $$ begin for n in 1..20 loop
  execute format('update shop.tenant_%s set id = id + 10 where id > 2', n);
  execute format('insert into shop.tenant_%s values (100)', n);
end loop; end $$
"""
"""Few enough to be in files of their own, and so many that their changes are in packs."""


def make_packed_changes(folder: Path) -> None:
    """Make an archive as `make_changes` does, whose changes are in packs."""
    make_changes(folder, FEW_TENANTS, changed=(CHANGED_TENANTS,))


def make_changes(folder: Path, *more: str, changed: Sequence[str] = ()) -> None:
    """Make an archive of a full backup and changes since with the installed version.

    :param more: scripts that make more tables, and `changed`: change them.
    """
    with PostgresServer() as server:
        source = Address(server.url(), server.password)
        _holdfast(source, "init", str(folder), "--name", "fixture")
        _run(source, FIRST, BEYOND_TABLES, FOLLOWED, *more)
        _holdfast(source, "backup", str(folder), "--source", source.url, "--kind", "changes")
        _run(source, *BEFORE_MARK)
        _holdfast(source, "mark", str(folder), MARK, "--source", source.url)
        _run(source, *AFTER_MARK, *changed)
        _holdfast(source, "backup", str(folder), "--source", source.url)


CONFIGURATION = """
archives:
  fixture: {url: %s, sources: {postgres: {connection: none}}, compaction: {min_blocks: 2, min_age: 0s}}
"""


def make_maintained(folder: Path) -> None:
    """Make an archive to which all that is done that maintenance does, with the installed version."""
    with PostgresServer() as server, TemporaryDirectory() as place:
        configuration = Path(place, "archives.yaml")
        configuration.write_text(CONFIGURATION % folder.resolve())
        os.environ["HOLDFAST_ARCHIVES"] = str(configuration)
        source = Address(server.url(), server.password)
        _holdfast(source, "init", str(folder), "--name", "fixture")
        _run(source, FIRST, FOLLOWED, "drop table shop.empty")  # whose rows the log does not tell
        _holdfast(source, "backup", str(folder), "--source", source.url, "--kind", "changes")
        _run(source, *BEFORE_MARK)
        _holdfast(source, "mark", str(folder), MARK, "--source", source.url)
        _holdfast(source, "backup", str(folder), "--source", source.url)
        for statement in AFTER_MARK[:3]:
            _run(source, statement)
            _holdfast(source, "backup", str(folder), "--source", source.url)
        _holdfast(source, "compact", "fixture")
        _holdfast(source, "hold", "add", "fixture", "--source", "postgres", "--at", f"mark:{MARK}", "--reason", "audit")
        archive = Archive.open(open_store(str(folder)))
        write_checkpoint(archive.store, archive.identity.id, archive.state)
        _run(source, AFTER_MARK[3])
        _holdfast(source, "backup", str(folder), "--source", source.url)
        _holdfast(source, "compact", "fixture", "--consolidate")
        _holdfast(source, "vacuum", "fixture", "--grace", "0s")


def _run(source: Address, *scripts: str) -> None:
    with connect(source) as session:
        for script in scripts:
            session.execute(script.encode())


def _holdfast(source: Address, *words: str) -> None:
    command = str(Path(sys.prefix, "bin", "holdfast"))
    subprocess.run([command, *words], check=True, env={**os.environ, "PGPASSWORD": source.password or ""})


if __name__ == "__main__":
    kinds = {
        "": make,
        "changes": make_changes,
        "maintained": make_maintained,
        "packs": make_packs,
        "packed-changes": make_packed_changes,
    }
    kinds["".join(sys.argv[2:])](Path(sys.argv[1]))
