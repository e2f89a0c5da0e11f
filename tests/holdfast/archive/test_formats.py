"""What every released version wrote can still be opened, verified and restored."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.archive import Archive, points
from holdfast.archive.blocks import read_batches
from holdfast.archive.verify import verify
from holdfast.sources.postgresql.address import Address
from holdfast.sources.postgresql.session import connect
from holdfast.storage import open_store
from tests.support.archive_fixture import EXPECTED, FIXTURES

ALL = sorted(path.name for path in FIXTURES.iterdir())


@pytest.fixture(params=ALL)
def fixture(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a fixture: opening must not change it, and a test must not either."""
    return Path(shutil.copytree(FIXTURES / request.param, tmp_path / "archive"))


def test_there_are_fixtures_of_format_1_without_checksums_in_its_commits_and_with_and_with_large_objects() -> None:
    assert ALL == ["format-1", "format-1-large-objects", "format-1-sealed"]


def test_it_opens_and_every_byte_is_as_it_was_written(fixture: Path) -> None:
    archive = Archive.open(open_store(str(fixture)))
    assert [commit.sequence for commit in archive.commits] == [1, 2]
    assert verify(archive, deep=True).damage == ()
    (source,) = points.describe(archive.state)["sources"]
    assert [interval["commit"] for interval in source["intervals"]] == [1, 2]
    assert len(source["gaps"]) == 1


def test_its_rows_can_be_read_as_plain_parquet(fixture: Path) -> None:
    archive = Archive.open(open_store(str(fixture)))
    block = points.resolve(archive.state, archive.store, "postgres", "commit:1").full.block
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
    subprocess.run(
        [str(Path(sys.prefix, "bin", "holdfast")), "restore", str(fixture), "--to", target.url, "--at", at],
        env={**os.environ, "PGPASSWORD": target.password or ""}, check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    with connect(target) as session:
        found = session.execute(
            "select (select count(*) from shop.customer), (select price::text from shop.sale where id = 1)"
        ).fetchone()
        objects = session.execute("select lo_get(oid) from pg_largeobject_metadata order by oid").fetchall()
    assert found == EXPECTED[at]
    assert objects == ([(b"a picture" * 1000,), (b"",)] if fixture_has_more(fixture) else [])


def fixture_has_more(fixture: Path) -> bool:
    """Whether it has what the first two fixtures do not have yet."""
    return Archive.open(open_store(str(fixture))).commit(1).add[0].unlogged == ("shop.visit",)
