"""Compactions whose store fails change no restore point, and the next one finds what is left to do."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import FileSystem

from holdfast.archive import Archive
from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.history.restore_points import describe
from holdfast.archive.maintenance.compaction import plan_compaction
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import HoldfastError, SparkNeededError
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.storage import ObjectStore, open_store
from locking.store import StoreError
from sparkjobs import compaction
from sparkjobs.driver import application
from tests.support.archives.compacting import EVERYTHING, compact, compaction_job, everything_told, outcomes, request_of
from tests.support.following.followed import open_followed
from tests.support.following.followed_shop import CHANGES, MORE_CHANGES, begin
from tests.support.jobs.steps import SteppedStore, When
from tests.support.servers.postgres import passing_database
from tests.support.stores.failing_requests import FULL, UNKNOWN, Failing

pytestmark = pytest.mark.service

BLOCKS = [5, 3]
"""In each of the two groups."""


@pytest.fixture(scope="module")
def template(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An archive of small blocks of changes, with a full snapshot among them: two groups can be joined."""
    folder = tmp_path_factory.mktemp("template") / "archive"
    with passing_database(postgres) as address:
        begin(address)
        with open_followed(address, folder) as followed:
            followed.back_up()
            for number, statements in enumerate((*CHANGES, *MORE_CHANGES)):
                followed.run(*statements)
                followed.back_up()
                if number == 3:
                    followed.back_up("full")
        yield folder


@pytest.fixture
def store(template: Path, tmp_path: Path) -> ObjectStore:
    folder = tmp_path / "archive"
    shutil.copytree(template, folder, ignore=shutil.ignore_patterns("locks"))
    return open_store(str(folder))


@pytest.fixture(scope="module")
def truth(template: Path) -> dict[str, Any]:
    """What the archive says of its restore points, and the rows at each."""
    return told(open_store(str(template)))


def told(store: ObjectStore) -> dict[str, Any]:
    return {**everything_told(store), **outcomes(store)}


def assert_unharmed(store: ObjectStore, truth: dict[str, Any], place: str) -> None:
    """Check that everything is there: of snapshots that were made, that what is older is as it was."""
    archive = Archive.open(store)
    assert verify(archive, deep=True).damage == (), place
    found = outcomes(store)
    assert {name: rows for name, rows in found.items() if name in truth} == {
        name: rows for name, rows in truth.items() if name in found
    }, place
    assert set(truth) - set(everything_told(store)) - set(found) == set(), place


class _Store(SteppedStore):
    def filesystem(self) -> tuple[FileSystem, str]:
        return self._store.filesystem()


@pytest.mark.parametrize(
    ("stride", "when"),
    [
        (9, "before"),
        *(pytest.param(*each, marks=pytest.mark.exhaustive) for each in ((1, "before"), (1, "after"))),
    ],
)
def test_a_store_that_fails_at_any_request_leaves_an_archive_that_can_be_compacted(
    template: Path, tmp_path: Path, truth: dict[str, Any], when: When, stride: int
) -> None:
    before = describe(Archive.open(open_store(str(template))).state)
    error: StoreError = FULL if when == "before" else UNKNOWN
    for at in itertools.count(1, stride):
        folder = tmp_path / str(at)
        shutil.copytree(template, folder, ignore=shutil.ignore_patterns("locks"))
        store = open_store(str(folder))
        failing = Failing(at, when, error, named="data/")
        try:
            compact(_Store(store, failing))
        except (StoreError, HoldfastError):
            assert describe(Archive.open(store).state) == before
            compact(store)
        else:
            assert at > len(failing.requests) > 20
            break
        assert describe(Archive.open(store).state) == before
        assert verify(Archive.open(store), deep=True).damage == ()
    assert_unharmed(store, truth, f"after {when} {at}")


@pytest.mark.parametrize("consolidate", [False, True], ids=["join", "consolidate"])
def test_a_compaction_hands_itself_over_to_spark_before_its_first_commit_or_not_at_all(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, *, consolidate: bool
) -> None:
    """What it had committed would be missing in the summary of the one that goes on."""
    state = Archive.open(store).state
    first, second = plan_compaction(state, EVERYTHING, store.list(IDENTITY_KEY).now, source=None)
    room = first.size + second.size - (0 if consolidate else 1)
    monkeypatch.setattr(application, "INLINE_STORED_BYTES", room)
    with pytest.raises(SparkNeededError), compaction_job(store, bounded=True) as job:
        compaction.compact(job, request_of(EVERYTHING, consolidate=consolidate))
    assert Archive.open(store).state.sequence == state.sequence
    monkeypatch.setattr(application, "INLINE_STORED_BYTES", 1 << 30)
    with compaction_job(store, bounded=True) as job:
        done = compaction.compact(job, request_of(EVERYTHING, consolidate=consolidate))
    assert [each["blocks"] for each in done["joined"]] == BLOCKS
    assert len(done["consolidated"]) == consolidate
