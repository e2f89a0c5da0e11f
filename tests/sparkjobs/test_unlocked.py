"""Restores that write nothing to the archive, and what they say where a vacuum has been faster."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.archive import Archive
from holdfast.archive.history import target_resolution
from holdfast.common.errors import DamagedError
from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.connection.session import connect
from holdfast.storage import open_store
from locking import RWLock
from sparkjobs.driver.application import Job
from sparkjobs.unlocked import still_there
from tests.support.archives.archive_fixture import EXPECTED_CHANGES, FIXTURES, HELD
from tests.support.archives.vacuuming import commit, write_block
from tests.support.jobs.command import run
from tests.support.stores.memory_store import MemoryStore


def job_on(store: MemoryStore) -> Job:
    return cast("Job", SimpleNamespace(store=store, log=SimpleNamespace(progress=lambda step: None)))


def moment_in(store: MemoryStore) -> Any:
    Archive.create(store, name="shop")
    for _ in range(2):
        commit(store, add=(write_block(store),))
    return target_resolution.resolve(Archive.open(store).state, store, "shop", "commit:1")


def test_where_all_files_are_there_in_the_end_all_is_well() -> None:
    store = MemoryStore()
    moment = moment_in(store)
    with still_there(job_on(store), moment):
        commit(store, "truncation", remove=(moment.full.id,))


def test_what_was_vacuumed_meanwhile_is_told_from_damage() -> None:
    store = MemoryStore()
    moment = moment_in(store)
    path = moment.full.block.tables[0].files[0].path
    with pytest.raises(DamagedError, match="is missing") as caught, still_there(job_on(store), moment):
        store.delete(path)
    assert "meanwhile" not in str(caught.value)
    with (
        pytest.raises(DamagedError, match=f"{path} is missing.*removed from the archive meanwhile.*grace"),
        still_there(job_on(store), moment),
    ):
        commit(store, "truncation", remove=(moment.full.id,))


def test_a_read_that_fails_for_it_says_so_too() -> None:
    store = MemoryStore()
    moment = moment_in(store)
    commit(store, "truncation", remove=(moment.full.id,))
    with (
        pytest.raises(DamagedError, match=r"x is missing\. What was to be restored was removed"),
        still_there(job_on(store), moment),
    ):
        raise DamagedError("x is missing")


def test_other_failures_are_what_they_are() -> None:
    store = MemoryStore()
    moment = moment_in(store)
    commit(store, "truncation", remove=(moment.full.id,))
    with pytest.raises(ZeroDivisionError), still_there(job_on(store), moment):
        raise ZeroDivisionError


@pytest.mark.service
def test_nothing_is_written_to_the_archive_and_nobody_is_waited_for(
    tmp_path: Path, new_database: Callable[..., Address]
) -> None:
    place = Path(shutil.copytree(FIXTURES / "format-1-changes", tmp_path / "archive"))
    target = new_database()
    with RWLock(open_store(str(place)), "history").write(purpose="vacuum", wait=0):
        before = {path: path.stat().st_mtime_ns for path in place.rglob("*") if "locks" not in path.parts}
        restored = run("restore", str(place), "--to", target.url, "--no-lock", address=target)
    assert restored.code == 0, restored.err
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*") if "locks" not in path.parts} == before
    with connect(target) as session:
        assert session.execute(HELD.encode()).fetchone() == tuple(EXPECTED_CHANGES["latest"].values())
