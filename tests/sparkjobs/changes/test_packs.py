"""Small tables and changes share objects: they are restored, asked for, consolidated and deleted as any others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO

import pytest

from holdfast.archive.format.block import Block
from holdfast.archive.format.document import FileRecord
from holdfast.archive.maintenance.retention import parse_rules
from holdfast.archive.maintenance.truncation import truncate
from holdfast.archive.maintenance.vacuum import vacuum
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import DamagedError, ReportedError, exit_code_of
from holdfast.point_in_time.query import Query
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.storage.folder import FolderStore
from sparkjobs.tasks import changes, pieces
from tests.support.archives.compacting import NOTHING, compact
from tests.support.following.followed import Followed, agree, comes_back, followed_by_all, open_followed, packs

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

TENANTS = 8
SHOP = (
    *(f"create table orders_{n} (id int primary key, word text)" for n in range(TENANTS)),
    *(f"insert into orders_{n} select i, 'of ' || {n} from generate_series(1, 5) i" for n in range(TENANTS)),
    "create table words (word text)",
    "alter table words replica identity full",
    "create table big (id int primary key, body text)",
    "alter table big alter body set storage external",
    "insert into big select i, repeat(md5(i::text), 1000) from generate_series(1, 80) i",
    *(f"create table quiet_{n} (id int primary key)" for n in range(3)),
    "insert into quiet_1 values (1), (2)",
)
_BIG = "insert into big select i, repeat(md5(i::text), 1000) from generate_series({}, {}) i"


@pytest.fixture
def shop(address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Followed]:
    """A database whose full backup and two of changes have packs, each of a few tables."""
    with followed_shop(address, tmp_path / "archive", monkeypatch) as followed:
        yield followed


@pytest.fixture(scope="module")
def read(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    """The same, for all tests that only read the archive."""
    with followed_by_all(followed_shop, postgres, tmp_path_factory.mktemp("read") / "archive") as followed:
        yield followed


@contextmanager
def followed_shop(address: Address, place: Path, patch: pytest.MonkeyPatch) -> Iterator[Followed]:
    patch.setattr(pieces, "PACKED_FROM", 3)
    patch.setattr(pieces, "LOCKED_AT_ONCE", 5)
    patch.setattr(changes, "PACKED_FROM", 3)
    patch.setattr(changes, "PACK_BYTES", 20_000)
    with open_followed(address, place) as followed:
        followed.make(SHOP)
        followed.back_up()
        followed.note()
        for round_ in (1, 2):
            followed.run(*(f"update orders_{n} set word = 'round {round_}' where id = 1" for n in range(TENANTS)))
            followed.run("insert into words values ('a'), (null)", _BIG.format(round_ * 100, round_ * 100 + 50))
            followed.run(*(f"alter table orders_{n} add c{round_} int default {n}" for n in range(0, TENANTS, 2)))
            followed.run(*(f"insert into orders_{n} values ({round_ * 10}, 'new')" for n in range(TENANTS)))
            followed.back_up()
        yield followed


def packed(shop: Followed) -> dict[str, tuple[FileRecord, ...]]:
    """Return the packs of each block of changes that has some, by its commit."""
    blocks = (placed.block for placed in shop.archive().state.blocks.values() if placed.head.kind == "changes")
    return {block.id: block.packs for block in blocks if block.packs}


def alone(block: Block) -> set[str]:
    """Return the tables of a block with files of their own."""
    return {table.name for table in block.tables if any(file.offset is None for file in table.files)}


def test_small_tables_are_in_packs_and_large_ones_in_files_of_their_own(read: Followed) -> None:
    block = read.moment("commit:1").full.block
    assert len(block.packs) > 2  # of five tables at most
    assert alone(block) == {"big"}
    of_changes = {pack.path for some in packed(read).values() for pack in some}
    assert {pack.path for pack in block.packs} | of_changes == packs(read)


def test_small_changes_are_in_packs_in_the_order_of_their_tables_and_large_ones_in_files_of_their_own(
    read: Followed,
) -> None:
    assert [len(each) for each in packed(read).values()] == [3, 3]  # of 8 tables, four in two forms, and one
    for identity in packed(read):
        block = read.archive().state.blocks[identity].block
        assert alone(block) == {"big"}
        forms = Counter(table.name for table in block.tables)
        assert {name for name, count in forms.items() if count == 2} == {f"orders_{n}" for n in range(0, TENANTS, 2)}
        ids = [int(table.id) for table in block.tables]
        assert ids == sorted(ids)
        assert sum(pack.rows for pack in block.packs) == sum(
            table.rows for table in block.tables if table.name != "big"
        )
    assert verify(read.archive(), deep=True).damage == ()


def test_every_moment_comes_back(read: Followed, new_database: NewDatabase) -> None:
    agree(read)
    for at in (read.moments[3][0], read.moments[-1][0]):
        comes_back(read, f"lsn:{at}", new_database())


def test_a_restore_opens_each_pack_once(
    read: Followed, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: Counter[str] = Counter()
    open_read = FolderStore.open_read

    def counted(store: FolderStore, key: str) -> IO[bytes]:
        if key in there:
            opened[key] += 1
        return open_read(store, key)

    there = {pack.path for some in packed(read).values() for pack in some}
    monkeypatch.setattr(FolderStore, "open_read", counted)
    read.restore("latest", new_database())
    assert opened == dict.fromkeys(there, 1)


def test_one_table_is_asked_for_by_parts_of_packs(read: Followed, tmp_path: Path) -> None:
    def ask(sql: str) -> list[tuple[object, ...]]:
        query = Query(read.store, read.moment("latest"), sql, memory_bytes=64 << 20, spill=tmp_path)
        return [tuple(row.values()) for batch in query.rows() for row in batch.to_pylist()]

    rows = [(4, "of 4", 4, 4), (5, "of 4", 4, 4), (10, "new", 4, 4), (20, "new", 4, 4)]
    assert ask("select id, word, c1, c2 from orders_4 where id > 3 order by id") == rows
    assert ask("select id from quiet_1 order by id") == [(1,), (2,)]
    assert ask("select word, count(*) from words group by word order by word") == [("a", 2), (None, 2)]


@pytest.mark.exhaustive
def test_a_made_snapshot_shares_packs_with_the_older_one_which_stay_as_long_as_it_does(
    shop: Followed, new_database: NewDatabase
) -> None:
    before = packs(shop)
    old = {table.name: table.files for table in shop.moment("commit:1").full.block.tables}
    said = compact(shop.store, NOTHING, consolidate=True)
    block = shop.moment(f"commit:{said['commit']}").full.block
    same = {table.name for table in block.tables if table.files == old[table.name]}
    assert same == {f"quiet_{n}" for n in range(3)}
    assert {pack.path for pack in block.packs} == {file.key for name in same for file in old[name]} <= before
    agree(shop)
    truncate(shop.archive(), parse_rules(["last=1"]), check=lambda: None, fence=None)
    vacuum(shop.archive(), grace=timedelta(0), check=lambda: None, fence=None)
    (newest,) = packed(shop).values()  # the next changes go on from it
    assert packs(shop) == {pack.path for pack in (*block.packs, *newest)}
    assert verify(shop.archive(), deep=True).damage == ()
    comes_back(shop, "latest", new_database())


def test_a_damaged_pack_is_named_with_its_tables_and_costs_what_needs_it(
    read: Followed, new_database: NewDatabase
) -> None:
    second = list(packed(read).values())[1]
    path = Path(read.store.url) / second[0].path
    body = bytearray(path.read_bytes())
    body[100] ^= 1
    whole = path.read_bytes()
    path.write_bytes(bytes(body))
    try:
        is_named_and_costs(read, new_database, second[0].path)
    finally:
        path.write_bytes(whole)


def is_named_and_costs(read: Followed, new_database: NewDatabase, path: str) -> None:
    (found,) = verify(read.archive(), deep=True).damage
    assert (found.path, found.table) == (path, "public.orders_0 and 3 more tables")
    assert [(cost.first, cost.last, cost.points) for cost in found.costs] == [(3, 3, 1)]
    with pytest.raises(ReportedError, match=r"\.pack#0 in .* is damaged") as raised:
        read.restore("latest", new_database())
    assert exit_code_of(raised.value) == DamagedError.exit_code
    comes_back(read, "commit:2", new_database())


def test_archives_of_format_1_have_no_packs(address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pieces, changes):
        monkeypatch.setattr(module, "PACKED_FROM", 0)
    with open_followed(address, tmp_path / "archive", number=1) as followed:
        followed.make(["create table small (id int primary key)", "create table other (id int primary key)"])
        followed.back_up()
        followed.run("insert into small values (1)", "insert into other values (1)")
        followed.back_up()
        assert packs(followed) == set()
        assert followed.archive().state.min_reader == 1
        agree(followed)
