"""What every released version wrote can still be opened, verified and restored."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.archive.files.blocks import read_batches
from holdfast.archive.history import restore_points, target_resolution
from holdfast.archive.maintenance.verify import verify
from holdfast.point_in_time.query import Query
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import open_store
from tests.support.archives.archive_fixture import EXPECTED, EXPECTED_CHANGES, FIXTURES, HELD, MARK
from tests.support.jobs.command_here import run_here

FULL = ("format-1", "format-1-large-objects", "format-1-sealed")
CHANGES = ("format-1-changes", "format-2-maintained", "format-2-packs", "format-2-packed-changes", "format-2-voided")


@pytest.fixture(params=CHANGES)
def changes(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a fixture with changes, too."""
    return Path(shutil.copytree(FIXTURES / request.param, tmp_path / "archive"))


@pytest.fixture(params=FULL)
def fixture(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a fixture: opening must not change it, and a test must not either."""
    return Path(shutil.copytree(FIXTURES / request.param, tmp_path / "archive"))


def test_each_fixture_is_looked_at() -> None:
    assert sorted(path.name for path in FIXTURES.iterdir()) == sorted(FULL + CHANGES)


def test_it_opens_and_every_byte_is_as_it_was_written(fixture: Path) -> None:
    archive = Archive.open(open_store(str(fixture)))
    assert [commit.sequence for commit in archive.commits()] == [1, 2]
    assert verify(archive, deep=True).damage == ()
    (source,) = restore_points.describe(archive.state)["sources"]
    assert [interval["commit"] for interval in source["intervals"]] == [1, 2]
    assert len(source["gaps"]) == 1


def test_its_rows_can_be_read_as_plain_parquet(fixture: Path) -> None:
    archive = Archive.open(open_store(str(fixture)))
    block = target_resolution.resolve(archive.state, archive.store, "postgres", "commit:1").full.block
    sale = next(table for table in block.tables if table.name == "sale")
    rows = [row for file in sale.files for batch in read_batches(archive.store, file) for row in batch.to_pylist()]
    assert [row["id"] for row in rows] == [1, 2, 3]
    assert [str(row["price"]) for row in rows] == ["12.50", "None", "None"]
    assert [row["price__exact"] for row in rows] == [None, "NaN", None]
    assert [row["at__exact"] for row in rows] == [None, "infinity", "0044-03-15 12:00:00+00 BC"]
    assert rows[0]["tags"] == '{x,NULL,""}'


@pytest.mark.service
@pytest.mark.parametrize("at", EXPECTED)
def test_it_is_restored(fixture: Path, at: str, new_database: Callable[..., Address]) -> None:
    target = new_database()
    restored = run_here("restore", str(fixture), "--to", target.url, "--at", at, address=target)
    assert restored.code == 0, restored.err
    with connect(target) as session:
        found = session.execute(
            "select (select count(*) from shop.customer), (select price::text from shop.sale where id = 1)"
        ).fetchone()
        objects = session.execute("select lo_get(oid) from pg_largeobject_metadata order by oid").fetchall()
    assert found == EXPECTED[at]
    assert objects == ([(b"a picture" * 1000,), (b"",)] if fixture_has_more(fixture) else [])


def test_changes_open_and_every_byte_is_as_it_was_written(changes: Path) -> None:
    archive = Archive.open(open_store(str(changes)))
    assert {block.kind for commit in archive.commits() for block in commit.add} == {"snapshot", "changes"}
    assert verify(archive, deep=True).damage == ()
    (source,) = restore_points.describe(archive.state)["sources"]
    (interval,) = source["intervals"]
    assert source["gaps"] == []
    newest = max(commit.sequence for commit in archive.commits() if commit.kind == "backup")
    assert interval["commit"] >= newest
    assert [mark["name"] for mark in source["marks"]] == [MARK]


def test_tables_that_are_not_followed_are_named(tmp_path: Path) -> None:
    archive = Archive.open(open_store(str(shutil.copytree(FIXTURES / "format-1-changes", tmp_path / "archive"))))
    (source,) = restore_points.describe(archive.state)["sources"]
    assert set(source["not_followed"]) == {"shop.empty", "shop.visit", "pg_catalog.pg_largeobject"}


def test_what_maintenance_wrote_is_read(tmp_path: Path) -> None:
    place = Path(shutil.copytree(FIXTURES / "format-2-maintained", tmp_path / "archive"))
    archive = Archive.open(open_store(str(place)))
    assert {commit.kind for commit in archive.commits()} == {"backup", "compaction", "hold", "consolidation", "vacuum"}
    assert [hold.reason for hold in archive.state.holds.values()] == ["audit"]
    assert [len(placed.head.parts) for placed in archive.state.blocks.values() if placed.head.parts] == [4]
    assert [placed.head.after for placed in archive.state.blocks.values() if placed.head.after] == [8]
    assert archive.state.removed == {}
    by_checkpoint = archive.state
    for found in (place / "checkpoints").iterdir():
        found.unlink()
    assert Archive.open(archive.store).state == by_checkpoint


def test_changes_in_packs_are_read(tmp_path: Path) -> None:
    place = shutil.copytree(FIXTURES / "format-2-packed-changes", tmp_path / "archive")
    archive = Archive.open(open_store(str(place)))
    assert [len(archive.commit(number).add[0].packs) for number in (1, 2)] == [0, 1]
    assert archive.state.min_reader == 3
    moment = target_resolution.resolve(archive.state, archive.store, "postgres", "latest")
    for number in (*range(1, 8), 20):  # tables have as many rows as their number is beyond a multiple of seven
        sql = f"select id from shop.tenant_{number} order by id"
        query = Query(archive.store, moment, sql, memory_bytes=64 << 20, spill=tmp_path)
        rows = [row["id"] for batch in query.rows() for row in batch.to_pylist()]
        assert rows == [*(each + 10 * (each > 2) for each in range(1, number % 7 + 1)), 100]


def test_small_tables_in_packs_are_read(tmp_path: Path) -> None:
    archive = Archive.open(open_store(str(shutil.copytree(FIXTURES / "format-2-packs", tmp_path / "archive"))))
    block = archive.commit(1).add[0]
    assert len(block.packs) >= 2
    assert archive.state.min_reader == 3
    tenants = [table for table in block.tables if table.name.startswith("tenant_")]
    assert len(tenants) == 100
    for table in tenants:
        rows = [row["id"] for file in table.files for batch in read_batches(archive.store, file)
                for row in batch.to_pylist()]  # fmt: skip
        assert rows == list(range(1, int(table.name.removeprefix("tenant_")) % 7 + 1))


@pytest.mark.parametrize("at", EXPECTED_CHANGES)
def test_changes_are_queried(changes: Path, at: str, tmp_path: Path) -> None:
    archive = Archive.open(open_store(str(changes)))
    moment = target_resolution.resolve(archive.state, archive.store, "postgres", at)
    (batch,) = Query(archive.store, moment, HELD, memory_bytes=64 << 20, spill=tmp_path).rows()
    assert batch.to_pylist() == [EXPECTED_CHANGES[at]]


@pytest.mark.service
def test_changes_are_restored(changes: Path, new_database: Callable[..., Address]) -> None:
    target, at = new_database(), f"mark:{MARK}"
    restored = run_here("restore", str(changes), "--to", target.url, "--at", at, address=target)
    assert restored.code == 0, restored.err
    with connect(target) as session:
        assert session.execute(HELD.encode()).fetchone() == tuple(EXPECTED_CHANGES[at].values())


def fixture_has_more(fixture: Path) -> bool:
    """Whether it has what the first two fixtures do not have yet."""
    return Archive.open(open_store(str(fixture))).commit(1).add[0].unlogged == ("shop.visit",)


def test_numbers_that_were_voided_are_passed_over(tmp_path: Path) -> None:
    place = shutil.copytree(FIXTURES / "format-2-voided", tmp_path / "archive")
    archive = Archive.open(open_store(str(place)))
    assert ([commit.sequence for commit in archive.commits()], archive.state.void) == ([1, 2, 4], frozenset({3}))
    assert (archive.state.min_reader, archive.state.min_writer) == (7, 7)
