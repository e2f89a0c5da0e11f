"""The database behind the archive fixtures, and how one is made when a new format is released.

    python -m tests.support.archive_fixture tests/fixtures/archives/format-N

A fixture is real bytes of a released version and is never made anew: it proves that what that version
wrote can still be read and restored.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from holdfast.sources.postgresql.address import Address
from holdfast.sources.postgresql.server import PostgresServer
from holdfast.sources.postgresql.session import connect

FIXTURES = Path(__file__).parents[1] / "fixtures" / "archives"

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


def make(folder: Path) -> None:
    """Make an archive of two commits with the installed version."""
    command = str(Path(sys.prefix, "bin", "holdfast"))
    with PostgresServer() as server:
        source = Address(server.url(), server.password)
        environment = {**os.environ, "PGPASSWORD": server.password}
        subprocess.run([command, "init", str(folder), "--name", "fixture"], check=True)
        for statements in (FIRST + BEYOND_TABLES, SECOND):
            with connect(source) as session:
                session.execute(statements.encode())
            backup = [command, "backup", str(folder), "--source", source.url]
            subprocess.run(backup, check=True, env=environment)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
