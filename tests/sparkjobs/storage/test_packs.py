"""An archive whose small tables are in packs is restored, followed, consolidated and truncated as any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.archive.maintenance.retention import parse_rules
from holdfast.archive.maintenance.truncation import truncate
from holdfast.archive.maintenance.vacuum import vacuum
from holdfast.archive.maintenance.verify import verify
from holdfast.point_in_time.query import Query
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from sparkjobs.tasks import pieces
from tests.support.archives.compacting import NOTHING, compact
from tests.support.following.followed import Followed, agree, comes_back, followed_by_all, open_followed, packs

pytestmark = pytest.mark.service

TENANTS = 12
SHOP = (
    *(f"create table orders_{n} (id int primary key, word text, price numeric(10,2))" for n in range(TENANTS)),
    *(f"insert into orders_{n} select i, 'of ' || {n}, i from generate_series(1, {n}) i" for n in range(TENANTS)),
    "create table words (word text)",
    "alter table words replica identity full",
    "insert into words values ('a'), ('a'), (null)",
    "create table big (id int primary key, body text)",
    "alter table big alter body set storage external",
    "insert into big select i, repeat(md5(i::text), 1000) from generate_series(1, 80) i",
)


@pytest.fixture
def shop(address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Followed]:
    """A database that is followed, with a full backup whose small tables are in packs, and changes of some of them."""
    with followed_shop(address, tmp_path / "archive", monkeypatch) as followed:
        yield followed


@pytest.fixture(scope="module")
def read(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    """The same, for all tests that only read the archive."""
    with followed_by_all(followed_shop, postgres, tmp_path_factory.mktemp("read") / "archive") as followed:
        yield followed


@contextmanager
def followed_shop(address: Address, place: Path, patch: pytest.MonkeyPatch) -> Iterator[Followed]:
    patch.setattr(pieces, "PACKED_FROM", 10)
    patch.setattr(pieces, "LOCKED_AT_ONCE", 5)
    with open_followed(address, place) as followed:
        followed.make(SHOP)
        followed.back_up()
        followed.note()
        followed.run("update orders_3 set price = price + 1 where id < 3", "delete from words where word is null")
        followed.run("insert into orders_0 values (1, 'new', null)", "update big set id = id + 100 where id < 3")
        followed.back_up()
        yield followed


def test_small_tables_are_in_packs_and_large_ones_in_files_of_their_own(read: Followed) -> None:
    block = read.moment("commit:1").full.block
    assert {pack.path for pack in block.packs} == packs(read)
    assert len(block.packs) > 2  # of five tables at most
    alone = {table.name for table in block.tables if any(file.offset is None for file in table.files)}
    assert alone == {"big"}
    assert verify(read.archive(), deep=True).damage == ()


def test_every_moment_comes_back(read: Followed, new_database: Callable[..., Address]) -> None:
    agree(read)
    comes_back(read, "commit:1", new_database())
    comes_back(read, "latest", new_database())


def test_rows_are_asked_for_by_sql_where_they_were_changed_and_where_not(read: Followed, tmp_path: Path) -> None:
    def ask(sql: str) -> list[dict[str, object]]:
        query = Query(read.store, read.moment("latest"), sql, memory_bytes=64 << 20, spill=tmp_path)
        return [row for batch in query.rows() for row in batch.to_pylist()]

    for number, total in {0: None, 3: 8, 4: 10}.items():
        rows = number or 1
        assert ask(f"select sum(price)::int as total, count(*) as rows from orders_{number}") == [
            {"total": total, "rows": rows}
        ]
    assert ask("select word, count(*) as rows from words group by word") == [{"word": "a", "rows": 2}]


@pytest.mark.exhaustive
def test_a_made_snapshot_shares_packs_with_the_older_one_which_stay_as_long_as_it_does(
    shop: Followed, new_database: Callable[..., Address]
) -> None:
    before = packs(shop)
    old = {table.label: table.files for table in shop.moment("commit:1").full.block.tables}
    said = compact(shop.store, NOTHING, consolidate=True)
    block = shop.moment(f"commit:{said['commit']}").full.block
    same = {table.label for table in block.tables if table.files == old[table.label]}
    assert same == {f"public.orders_{n}" for n in range(TENANTS) if n not in (0, 3)}
    assert {pack.path for pack in block.packs} == {file.key for label in same for file in old[label]} <= before
    agree(shop)
    truncate(shop.archive(), parse_rules(["last=1"]), check=lambda: None, fence=None)
    vacuum(shop.archive(), grace=timedelta(0), check=lambda: None, fence=None)
    assert packs(shop) == {pack.path for pack in block.packs}
    assert verify(shop.archive(), deep=True).damage == ()
    comes_back(shop, "latest", new_database())


def test_an_archive_of_format_1_has_no_packs_and_stays_readable_for_older_releases(
    address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PACKED_FROM", 0)
    with open_followed(address, tmp_path / "archive", number=1) as followed:
        followed.run("create table small (id int primary key)")
        followed.back_up("full")
        assert packs(followed) == set()
        assert followed.archive().state.min_reader == 1
