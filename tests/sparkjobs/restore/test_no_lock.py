"""Operations that only read, for who may not write to the archive: `--no-lock` writes nothing there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import open_store
from locking import RWLock
from tests.support.archives.archive_fixture import EXPECTED_CHANGES, FIXTURES, HELD
from tests.support.jobs.command import run
from tests.support.jobs.command_here import run_here

WAYS = {
    "query": ("query", "{}", "select count(*) from shop.customer"),
    "verify": ("verify", "{}", "--deep"),
    "verify by Spark's application": ("verify", "{}", "--deep", "--spark"),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / "format-1-changes", tmp_path / "archive"))


@contextmanager
def untouched(place: Path) -> Iterator[None]:
    """Somebody holds what a reader would wait for, and nothing is written beside that."""
    with RWLock(open_store(str(place)), "history").write(purpose="vacuum", wait=0):
        before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
        yield
        assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before


@pytest.mark.service
def test_a_restore_writes_nothing_and_waits_for_nobody(place: Path, new_database: Callable[..., Address]) -> None:
    target = new_database()
    with untouched(place):
        restored = run("restore", str(place), "--to", target.url, "--no-lock", address=target)
    assert restored.code == 0, restored.err
    with connect(target) as session:
        assert session.execute(HELD.encode()).fetchone() == tuple(EXPECTED_CHANGES["latest"].values())


@pytest.mark.service
@pytest.mark.parametrize("way", WAYS)
def test_reading_writes_nothing_and_waits_for_nobody(place: Path, way: str) -> None:
    command = [each.format(place) for each in WAYS[way]]
    with untouched(place):
        done = run_here(*command, "--no-lock", "--json")
    assert done.code == 0, done.out + done.err


@pytest.mark.service
def test_a_drill_writes_nothing_not_even_its_record(place: Path) -> None:
    with untouched(place):
        done = run_here("drill", str(place), "--no-lock")
        assert (done.code, "recorded nowhere" in done.out) == (0, True), done.out + done.err
    assert run_here("drill", str(place), "--history", "--json").value["drills"] == []


def test_a_repair_without_locks_is_refused(place: Path) -> None:
    done = run_here("verify", str(place), "--no-lock", "--repair-from", str(place))
    assert (done.code, "a repair writes to the archive" in done.err) == (2, True)


def test_a_query_whose_file_was_vacuumed_says_so_and_shows_no_rows(place: Path) -> None:
    for path in place.glob("data/*/*/snapshot/*/*.parquet"):
        path.unlink()
    done = run_here("query", str(place), "select * from shop.customer", "--no-lock", "--json")
    assert done.code == 4
    assert "is missing" in done.value["error"]
