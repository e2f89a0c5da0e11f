"""What a backup asks and computes of a catalog grows with the catalog, and no faster.

Each look is taken at a database, at one of twice its size and one of four times it. What the server reads for it, and
the lines that Python runs, may grow by twice as much from the second to the third as from the first to the second. What
goes through all tables for each table grows by four times as much. The planner may choose another way between two
sizes, and what it reads then jumps once: so the third must also be more than four times the first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import pytest

import holdfast
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.catalog.catalog_queries import read_catalog, read_tables
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import stream as streams
from holdfast.postgresql.logical.publication import not_followed, plan_publication, read_publication, reconcile
from holdfast.postgresql.restore.plan.target_state import read_target
from holdfast.postgresql.setup.readiness import check_database, check_server
from holdfast.postgresql.setup.stream_readiness import check_stream
from holdfast.postgresql.snapshot.obstacles import choice_obstacles
from holdfast.postgresql.snapshot.snapshot import hold_snapshot

pytestmark = pytest.mark.service

SMALLEST = 60
MOST = 3.0
"""Of the growth from the second size to the third over that from the first to the second: 2 where it is linear."""

TIMES = 4.5
"""Of the third size over the first: 4 or less where it is linear."""

FEW = 20_000
"""Rows, pages or lines: what grows by less than this is not looked at."""

NAME = "holdfast_growth"

CODE = str(Path(holdfast.__file__).parent)

Connection = psycopg.Connection[Any]

ONE_OF_EACH = """
create type public.mood_{n} as enum ('a', 'b', 'c');
create type public.pair_{n} as (a int, b text);
create domain public.small_{n} as int check (value < 100);
create table public.t_{n} (id int primary key, up int references public.t_{before}, mood public.mood_{n},
  moods public.mood_{n}[], pair public.pair_{n}, small public.small_{n}, word text unique, n numeric(9, 2) default {n});
create table public.part_{n} partition of public.parts for values in ({n});
create index on public.t_{n} (n);
create view public.v_{n} as select id, word from public.t_{n};
create materialized view public.m_{n} as select id from public.v_{n};
create sequence public.s_{n};
create function public.f_{n}() returns int language sql as 'select {n}';
comment on table public.t_{n} is 'number {n}';
grant select on public.t_{n} to growth_{role};
"""

ROLES = 20


def fill(session: Connection, size: int) -> None:
    session.execute("create table public.parts (k int, id int, primary key (k, id)) partition by list (k)")
    for role in range(ROLES):
        made = f"create role growth_{role}; exception when duplicate_object then null;"
        session.execute(f"do 'begin {made} end'".encode())
    for n in range(size):
        session.execute(ONE_OF_EACH.format(n=n, before=max(n - 1, 0), role=n % ROLES).encode())
    session.execute("analyze")


@pytest.fixture
def sizes(new_database: Callable[..., Address]) -> list[Address]:
    """Three databases, each of twice the size of the one before."""
    found = []
    for factor in (1, 2, 4):
        address = new_database()
        with connect(address) as session:
            fill(session, SMALLEST * factor)
            with hold_snapshot(address) as held:
                followed = held.catalog.with_rows()
            reconcile(session, plan_publication(session, NAME, followed))
        found.append(address)
    return found


def catalog(address: Address) -> Catalog:
    with connect(address) as session:
        return read_catalog(session, read_tables(session))


def look_at_snapshot(address: Address) -> None:
    with hold_snapshot(address) as held, connect(address) as now:
        assert held.not_included is not None
        held.check_labels(now)
        streams.seen(held.session)
        streams.schema_fingerprint(held.session)
        list(choice_obstacles(held.catalog, held.catalog.with_rows(["public.*"], ["public.m*"]), standby=False))


def look_at_stream(address: Address) -> None:
    with connect(address) as session:
        tables = read_catalog(session, read_tables(session), values=False).with_rows()
        plan = plan_publication(session, NAME, tables)
        not_followed(session, plan)
        streams.look(session, NAME)
        found = read_publication(session, NAME)
        assert found is not None
        streams.born_since(session, found.oid, "3:3:")


def look_at_types(address: Address) -> None:
    now = catalog(address)
    before = now.model_copy(update={"types": {**now.types, "label 1": "gone"}, "enum_oids": {}})
    for table in now.with_rows():
        now.types_altered(before, table)
        now.may_hide_others(table)


def look_at_target(address: Address) -> None:
    with connect(address) as session:
        read_target(session)


LOOKS: Mapping[str, Callable[[Address], object]] = {
    "source check": lambda address: (check_server(address), check_database(address)),
    "source check --changes": lambda address: check_stream(address, NAME, (), (), limit_bytes=1 << 40),
    "a snapshot and its catalog": look_at_snapshot,
    "the stream": look_at_stream,
    "types, table by table": look_at_types,
    "a restore's target": look_at_target,
}

_WORK = """
select tup_returned + tup_fetched, blks_hit + blks_read from pg_catalog.pg_stat_database
where datname = pg_catalog.current_database()
"""


def server_work(address: Address) -> tuple[int, int]:
    """Return how many rows and pages sessions that have ended have read in a database."""
    with connect(address) as session:
        row = session.execute(_WORK).fetchone()
    assert row is not None
    return row


def lines_of(look: Callable[[Address], object], address: Address) -> int:
    """Return how many of our own lines Python runs for a look."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(CODE):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        look(address)
    finally:
        sys.settrace(before)
    return count


def test_no_look_grows_faster_than_the_catalog(sizes: list[Address]) -> None:
    too_fast = {}
    for name, look in LOOKS.items():
        found: dict[str, list[int]] = {"rows": [], "pages": [], "lines": []}
        for address in sizes:
            rows, pages = server_work(address)
            found["lines"].append(lines_of(look, address))
            more_rows, more_pages = server_work(address)
            found["rows"].append(more_rows - rows)
            found["pages"].append(more_pages - pages)
        for what, (small, middle, large) in found.items():
            if large - middle >= max(MOST * (middle - small), FEW) and large >= TIMES * small:
                too_fast[name, what] = (small, middle, large)
    assert too_fast == {}
