"""`holdfast migrate`: an archive in a newer format, alone with it, and what is said of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change, locks
from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.commits import COMMITS
from holdfast.storage import ObjectStore, open_store
from locking import Owner, inspect
from tests.support.jobs.command import RunCommand


@pytest.fixture
def old(tmp_path: Path) -> ObjectStore:
    """An archive of format 1 with one backup."""
    archive = Archive.create(open_store(str(tmp_path / "old")), name="old", number=1)
    catalog = write_bytes(archive.store, "data/shop_db/schema/b/catalog-1.json", b"{}")
    change = Change(kind="backup", add=(make_block().model_copy(update={"catalog": catalog}),))
    archive.add(lambda state: change, check=lambda: None, fence=None)
    return archive.store


def test_the_archive_is_lifted_by_a_commit_under_the_lock_and_keeps_its_restore_points(
    holdfast: RunCommand, old: ObjectStore
) -> None:
    before = Archive.open(old).state.blocks
    done = holdfast("migrate", old.url, "--to", "2")
    assert (done.code, done.out) == (0, "lifted from format 1 to 2 by commit 2\n")
    after = Archive.open(old)
    assert (after.state.format, after.state.blocks) == (2, before)
    assert after.commit(2).fence is not None
    assert list(inspect(old)) == []


def test_what_was_done_is_told_in_json_and_done_once(holdfast: RunCommand, old: ObjectStore) -> None:
    lifted = holdfast("migrate", old.url, "--to", "2", "--json").value
    assert (lifted["from"], lifted["format"], lifted["commits"]) == (1, 2, 2)
    again = holdfast("migrate", old.url, "--to", "2")
    assert (again.code, again.out) == (0, "nothing to do: the archive has format 2\n")
    assert len(old.list(COMMITS).objects) == 2


def test_where_there_is_no_archive_not_even_a_lock_is_written(holdfast: RunCommand) -> None:
    Path("empty").mkdir()
    assert holdfast("migrate", "empty", "--to", "2").code == 2
    assert list(Path("empty").iterdir()) == []


def test_it_waits_for_nobody_unless_told_to(holdfast: RunCommand, old: ObjectStore) -> None:
    with locks.acquire(old, "backup", sources=["shop"], owner=Owner(), purpose="backup r1", wait=0):
        done = holdfast("migrate", old.url, "--to", "2", "--json")
    assert (done.code, "backup r1" in done.value["error"]) == (3, True)
    assert Archive.open(old).state.format == 1
