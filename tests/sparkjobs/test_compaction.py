"""Joined blocks of changes tell what they told before; snapshots made of them are what a full backup takes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import Change, locks
from holdfast.archive.history.recovery_target import RecoveryTarget
from holdfast.archive.maintenance.compaction import join
from holdfast.archive.maintenance.retention import parse_rules
from holdfast.archive.maintenance.truncation import truncate
from holdfast.archive.maintenance.vacuum import Vacuumed, vacuum
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.storage import open_store
from locking import Owner
from tests.support.archives.compacting import NOTHING, compact, everything_told
from tests.support.following.followed import Followed, agree, comes_back, open_followed
from tests.support.jobs.command import ON_SPARK, run
from tests.support.jobs.command_here import run_here
from tests.support.servers.postgres import passing_database

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

SHOP = (
    "create table orders (id int primary key, name text, price numeric(10,2), at date)",
    "insert into orders select i, 'order ' || i, i * 1.5, '2026-01-01'::date + i from generate_series(1, 300) i",
    "create table docs (id int primary key, hits int, body text)",
    "alter table docs alter body set storage external",
    "insert into docs select i, 0, repeat(md5(i::text), 200) from generate_series(1, 20) i",
    "create table words (word text, n int)",
    "alter table words replica identity full",
    "insert into words values ('a', 1), ('a', 1), ('b', 2), (null, null)",
    "create table quiet (id int primary key)",
    "insert into quiet values (1)",
)

STEPS = (
    ("update orders set price = price + 1 where id % 3 = 0", "update docs set hits = hits + 1"),
    ("insert into words values ('a', 1), ('c', 3)", "update orders set at = 'infinity' where id = 7"),
    ("delete from orders where id between 10 and 20", "update docs set id = id + 100 where id < 5"),
    ("alter table orders add note text default 'none'", "update orders set note = 'x' where id = 1"),
    ("delete from words where word = 'a'", "truncate docs", "insert into docs values (1, 1, repeat('z', 9000))"),
    ("update orders set price = null where id > 290", "update docs set hits = 2", "insert into orders values (10)"),
)


FEW = STEPS[2:5]
"""As many as can be joined, for what does not depend on what is in them."""


def follow(followed: Followed, steps: Sequence[Sequence[str]]) -> None:
    """Make a block of changes for each of some steps."""
    followed.make(SHOP)
    followed.back_up()
    followed.note()
    for statements in steps:
        followed.run(*statements)
        followed.back_up()


@pytest.fixture(scope="module")
def template(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    """A database that is followed, with a block of changes for each of the steps; nobody changes either."""
    folder = tmp_path_factory.mktemp("template") / "archive"
    with passing_database(postgres) as address, open_followed(address, folder) as followed:
        follow(followed, STEPS)
        yield followed


@pytest.fixture
def shop(template: Followed, tmp_path: Path) -> Iterator[Followed]:
    """The same database, and an archive of one's own that holds what the template's does."""
    folder = tmp_path / "archive"
    shutil.copytree(template.store.url, folder, ignore=shutil.ignore_patterns("locks"))
    store = open_store(str(folder))
    with locks.acquire(store, "backup", sources=["shop"], owner=Owner(), purpose="test", wait=0) as held:
        followed = Followed(template.address, store, held, list(template.moments))
        yield followed
        followed.session.close()


@pytest.fixture
def young(address: Address, tmp_path: Path) -> Iterator[Followed]:
    """A database of one's own, which may be changed and followed on, with blocks of a few of the steps."""
    with open_followed(address, tmp_path / "archive") as followed:
        follow(followed, FEW)
        yield followed


def test_joined_blocks_tell_all_that_they_told_before(shop: Followed, new_database: NewDatabase) -> None:
    before = everything_told(shop.store)
    restored = comes_back(shop, "latest", new_database())
    assert compact(shop.store)["blocks_removed"] == len(STEPS)
    assert everything_told(shop.store) == before
    agree(shop)
    comes_back(shop, f"lsn:{shop.moments[3][0]}", new_database())
    again = comes_back(shop, "latest", new_database())
    assert restored["bytes"] / 2 < again["bytes"] < restored["bytes"]
    told = ("commit", "rows", "tables", "restored_to", "position", "stale", "not_restored")
    assert [again[each] for each in told] == [restored[each] for each in told]
    assert verify(shop.archive(), deep=True).damage == ()


def hashes_of(moment: RecoveryTarget) -> dict[str, str]:
    """Return the content hash of each table of a snapshot, by name."""
    assert moment.is_snapshot
    return {record.label: record.digest for record in moment.full.block.tables}


def test_a_snapshot_that_was_made_is_what_a_full_backup_of_that_moment_takes(
    shop: Followed, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkjobs.tasks.merging.SHARE_BYTES", 1)
    before = shop.archive().state
    said = compact(shop.store, NOTHING, consolidate=True)
    made = shop.moment(f"commit:{said['commit']}")
    assert (made.full.id in before.blocks, made.full.head.after) == (False, len(before.blocks))
    comes_back(shop, f"commit:{said['commit']}", new_database())
    agree(shop)
    shop.back_up("full")
    taken = shop.moment("latest")
    assert taken.full.head.after is None
    assert hashes_of(made) == hashes_of(taken)
    files = {record.label: len(record.files) for record in made.full.block.tables}
    # Where keys are not enough to tell the rows, the first of the tasks makes all of them.
    assert files == {
        "public.orders": 2,
        "public.docs": 1,
        "public.words": 1,
        "public.quiet": 1,
    }
    assert verify(shop.archive(), deep=True).damage == ()


def test_a_table_that_nothing_changed_keeps_its_files(shop: Followed) -> None:
    old = {record.label: record.files for record in shop.moment("commit:1").full.block.tables}
    compact(shop.store, NOTHING, consolidate=True)
    new = {record.label: record.files for record in shop.moment("latest").full.block.tables}
    assert [label for label in new if new[label] == old[label]] == ["public.quiet"]


def test_blocks_that_a_truncation_has_removed_meanwhile_are_not_joined(
    shop: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = next(placed.id for placed in shop.archive().state.blocks.values() if placed.commit == 4)

    def meanwhile(*given: Any, **more: Any) -> Any:
        change = Change(kind="truncation", remove=(gone,))
        shop.archive().add(lambda state: change, check=lambda: None, fence=None)
        return join(*given, **more)

    monkeypatch.setattr("sparkjobs.compaction.join", meanwhile)
    with pytest.raises(RefusedError, match="nothing was joined"):
        compact(shop.store)
    assert gone not in shop.archive().state.blocks
    assert len(shop.archive().state.blocks) == len(STEPS)


def test_nothing_that_is_needed_goes_with_the_blocks_that_were_joined(shop: Followed) -> None:
    compact(shop.store, consolidate=True)
    gone = vacuum_at_once(shop)
    assert len(gone.blocks) == len(STEPS)
    assert gone.files > len(STEPS)
    assert verify(shop.archive(), deep=True).damage == ()
    agree(shop)
    keep_newest(shop)
    assert vacuum_at_once(shop).files
    assert verify(shop.archive(), deep=True).damage == ()
    # What is left is one moment, behind what others have written to the log since the last change.
    shop.moments[:] = [(shop.archive().state.streams["shop"], shop.moments[-1][1])]
    agree(shop)


def vacuum_at_once(shop: Followed) -> Vacuumed:
    """Delete the files of removed blocks, however new."""
    return vacuum(shop.archive(), check=lambda: None, fence=None, grace=timedelta(0), orphans=False)


def keep_newest(shop: Followed, min_chains: int = 1) -> None:
    truncate(shop.archive(), parse_rules(["last=1"]), check=lambda: None, fence=None, min_chains=min_chains)


@pytest.mark.exhaustive
def test_tables_keep_a_source_from_being_consolidated_that_are_not_followed_or_cannot_be_made(young: Followed) -> None:
    """The latter have generated columns, and only once they were changed."""
    young.run("create unlogged table passing (id int primary key)", "insert into passing values (1)")
    young.back_up()
    blocks = set(young.archive().state.blocks)
    with pytest.raises(RefusedError, match=r"shop cannot be consolidated: .*public\.passing: "):
        compact(young.store, NOTHING, source="shop", consolidate=True)
    said = compact(young.store, NOTHING, consolidate=True)
    assert said["consolidated"] == []
    assert "public.passing" in said["not_consolidated"]["shop"]
    assert set(young.archive().state.blocks) == blocks

    young.run("drop table passing")
    young.run("create table twice (id int primary key, n int, m int generated always as (n * 2) stored)")
    young.run("insert into twice values (1, 1)")
    young.back_up("full")
    young.run("delete from quiet")
    young.back_up()
    assert compact(young.store, NOTHING, source="shop", consolidate=True)["consolidated"]
    agree(young)
    young.run("update twice set n = 2")
    young.back_up()
    with pytest.raises(RefusedError, match=r"public\.twice: it has generated columns"):
        compact(young.store, NOTHING, source="shop", consolidate=True)


def test_nothing_is_done_where_nothing_is_worth_it(shop: Followed) -> None:
    state = shop.archive().state
    said = compact(shop.store, NOTHING)
    assert (said["commit"], said["joined"], said["blocks_removed"]) == (None, [], 0)
    assert shop.archive().state.sequence == state.sequence


@pytest.mark.e2e
def test_the_command_joins_and_consolidates_by_spark(shop: Followed, new_database: NewDatabase) -> None:
    before = everything_told(shop.store)
    config = Path(shop.store.url).parent / "archives.yaml"
    config.write_text(f"archives: {{shop: {{url: {shop.store.url}, compaction: {{min_age: 0h, min_blocks: 3}}}}}}")
    more = {"HOLDFAST_ARCHIVES": str(config), **ON_SPARK}
    planned = run_here("compact", "shop", "--dry-run", "--consolidate", "--json", more=more)
    assert [each["blocks"] for each in planned.value["joined"]] == [len(STEPS)], planned.err
    done = run("compact", "shop", "--consolidate", more=more)
    assert done.code == 0, done.err
    assert re.search(r"joined \d+ blocks .*a full snapshot of shop at ", done.out, re.DOTALL), done.out
    assert [commit.kind for commit in list(shop.archive().commits())[-2:]] == ["compaction", "consolidation"]
    assert everything_told(shop.store).keys() >= before.keys()
    agree(shop, every=3)
    comes_back(shop, "latest", new_database())
