"""A source whose changes are backed up comes back as it was after any of its transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from holdfast.archive import Change
from holdfast.archive.history import restore_points
from holdfast.archive.history.coverage import covered_ranges
from holdfast.common.lsn import parse_position
from holdfast.operations import backup_run
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.snapshot.snapshot import HeldSnapshot, hold_snapshot
from sparkjobs import backup
from tests.support.following.followed import Everything, Followed, agree, known, open_followed

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

Rows = dict[str, list[tuple[str | None, ...]]]
"""The rows of each table, in order."""

SHOP = (
    "create type mood as enum ('sad', 'happy')",
    "create table orders (id int primary key, name text, price numeric(10,2), at timestamptz, mood mood, doc jsonb)",
    "insert into orders select i, 'order ' || i, i * 1.5, '2026-01-01'::timestamptz + i * interval '1 h', 'sad', "
    "jsonb_build_object('n', i) from generate_series(1, 500) i",
    "create table docs (id int primary key, hits int, body text)",
    "alter table docs alter body set storage external",
    "insert into docs select i, 0, repeat(md5(i::text), 200) from generate_series(1, 20) i",
    "create table events (at date, id int, note text, primary key (at, id)) partition by range (at)",
    "create table events_a partition of events for values from ('2026-01-01') to ('2026-02-01')",
    "create table events_b partition of events for values from ('2026-02-01') to ('2026-03-01')",
    "insert into events select '2026-01-01'::date + i, i, 'e' from generate_series(1, 50) i",
    "create table words (word text, n int)",
    "alter table words replica identity full",
    "insert into words values ('a', 1), ('a', 1), ('b', 2), (null, null)",
    "create table counters (id int generated always as identity primary key, n int default 0, twice int "
    "generated always as (n * 2) stored)",
    "insert into counters (n) select generate_series(1, 10)",
)


@pytest.fixture
def shop(address: Address, tmp_path: Path) -> Iterator[Followed]:
    """A database that is followed without Spark; only what happens from now on is known."""
    with open_followed(address, tmp_path / "archive") as followed:
        followed.make(SHOP)
        yield followed


def rows_at(shop: Followed, position: str) -> Rows:
    """Return the rows at a position, out of the archive; large objects aside."""
    return as_rows(shop.tables_at(shop.moment(f"lsn:{position}")))


def as_rows(found: Everything) -> Rows:
    return {table.label: table.only(sorted(table.columns)) for table in found.values()}


def restored(shop: Followed, new_database: NewDatabase, at: str) -> Rows:
    """Return the rows of a database that was restored; generated columns aside."""
    target = new_database()
    assert shop.restore(at, target)["equal"]
    with connect(target) as session:
        return as_rows(known(session))


def test_each_transaction_can_be_brought_back(shop: Followed, new_database: NewDatabase) -> None:
    assert shop.back_up("changes")["kind"] == "full"
    shop.run("insert into orders values (1000, 'new', 3.14, 'infinity', 'happy', '{}')")
    shop.run("update orders set price = price + 1 where id <= 10", "delete from orders where id = 11")
    shop.run("update docs set hits = hits + 1")
    assert shop.back_up("changes")["kind"] == "changes"
    shop.run("update docs set id = id + 100 where id <= 5", "update docs set hits = 7 where id = 101")
    shop.run("update events set at = at + 31 where id = 3")
    shop.run("insert into words values ('a', 1)", "delete from words where n = 2", "update words set n = 5 where n = 1")
    shop.run("truncate events_b")
    shop.run("insert into events select '2026-02-03', i, 'again' from generate_series(1, 5) i")
    shop.run("update counters set n = n + 1 where id < 4", "insert into counters (n) values (77)")
    assert shop.back_up("auto")["kind"] == "changes"

    described = restore_points.describe(shop.archive().state)["sources"][0]
    assert len(described["intervals"]) == 1
    assert described["gaps"] == []
    agree(shop, exactly=set(shop.moments[-1][1]))
    for position, rows in shop.moments[3::5]:
        assert restored(shop, new_database, f"lsn:{position}") == as_rows(rows), position


@pytest.mark.representatives("this")
@pytest.mark.parametrize("release", ["this", "earlier"])
def test_changes_between_a_new_slot_and_its_snapshot_are_neither_lost_nor_doubled(
    shop: Followed, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    def hold(address: Address, *, ddl_waits: bool = False) -> AbstractContextManager[HeldSnapshot]:
        shop.run("insert into words values ('a', 1), ('between', 3)", "delete from words where n = 2")
        shop.run("update orders set name = 'between' where id = 1", "insert into orders (id) values (4000)")
        return hold_snapshot(address, ddl_waits=ddl_waits)

    with monkeypatch.context() as patch:
        patch.setattr(backup_run, "hold_snapshot", hold)
        if release == "earlier":  # whose archives are followed from the slot on
            patch.setattr(backup, "joined_stream", lambda state, source, decision, *_: decision.stream)
        shop.back_up("changes")
    (opened,) = shop.archive().state.blocks.values()
    stream, since = opened.block.stream, parse_position(opened.block.covers.to_position)
    assert stream is not None
    assert (parse_position(stream.position) == since) == (release == "this")
    shop.moments.clear()
    shop.note()
    shop.run("insert into words values ('a', 1)", "delete from words where n = 3", "delete from orders where id = 4000")
    shop.run("delete from words where n = 1")

    first = shop.back_up("changes")
    assert (first["commits"], first["rows"]) == ((1, 3 + 4) if release == "this" else (2, 5 + 3 + 4))
    shop.run("insert into words values ('after', 6)")
    assert shop.back_up("changes")["commits"] == 1
    (interval,) = covered_ranges(shop.archive().state, "shop")
    assert interval.first == since
    for position, rows in shop.moments:
        assert rows_at(shop, position) == as_rows(rows), position
    for position, rows in (shop.moments[1], shop.moments[-1]):
        assert restored(shop, new_database, f"lsn:{position}") == as_rows(rows), position


@pytest.mark.exhaustive
def test_full_backups_do_not_interrupt_the_changes_which_belong_to_the_second_once_the_first_is_removed(
    shop: Followed,
) -> None:
    shop.back_up("changes")
    shop.run("insert into orders (id) values (2000)")
    assert shop.back_up("full")["kind"] == "full"
    shop.note()
    shop.run("insert into orders (id) values (2001)")
    shop.back_up("changes")
    (interval,) = covered_ranges(shop.archive().state, "shop")
    assert [placed.commit for placed in interval.snapshots] == [1, 2]
    for position, rows in shop.moments:
        assert rows_at(shop, position) == as_rows(rows)

    archive = shop.archive()
    (first,) = (block_id for block_id, placed in archive.state.blocks.items() if placed.commit == 1)
    archive.add(lambda state: Change(kind="expire", remove=(first,)), check=lambda: None, fence=None)
    (interval,) = covered_ranges(shop.archive().state, "shop")
    assert [placed.commit for placed in interval.snapshots] == [2]
    for position, rows in shop.moments[1:]:
        assert rows_at(shop, position) == as_rows(rows)
