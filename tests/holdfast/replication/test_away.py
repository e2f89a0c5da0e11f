"""A replica is away for many backups and some trimmings, and comes back: it is lost, made anew, and equal again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from holdfast.common.errors import DamagedError, HoldfastError
from holdfast.replication.log import schema
from holdfast.replication.log.errors import LostReplicaError
from holdfast.replication.log.replicas import log_state, mark_lost, replica
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.log.trimming import trim
from holdfast.replication.work.recovery import Recovered, recover
from holdfast.storage import ObjectStore, open_store
from locking.store import StoreError
from tests.support.jobs.steps import SteppedStore, Steps
from tests.support.replicas.replicated import Replicas, nothing, remove
from tests.support.stores.failing_requests import Failing

NAMES = ("near", "far", "off")
BACKUPS = 24
EVERY, MIN_KEEP, MAX_KEEP = 4, 2, 8
"""Backups between two trimmings, and what those keep."""

FILES = 2 * (BACKUPS + 1)


class KilledError(StoreError):
    """In place of the end of the process."""


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Replicas, Path]]:
    """Three replicas, of which `off` was away while the others were backed up into by turns, and a copy of all that."""
    folder = tmp_path_factory.mktemp("away") / "now"
    folder.mkdir()
    with CoordinationStore.open(f"sqlite:///{folder}/coordination.db") as coordination:
        three = Replicas.begun(folder, coordination, "far", "off")
        three.change("off", active_until=0.0)
        for done in range(EVERY, BACKUPS + 1, EVERY):
            archive = three.open(("near", "far")[done // EVERY % 2])
            for number in range(EVERY):
                archive.add(three.backup(archive.store, f"source_{number % 3}"), check=nothing, fence=None)
            for name in ("near", "far"):
                three.sync(name)
            trim(coordination, three.archive, min_keep=MIN_KEEP, max_keep=MAX_KEEP)
            # Who is away is waited for, up to that many, and who is lost is not.
            assert kept_entries(three) == (done if done <= MAX_KEEP else MIN_KEEP)
        shutil.copytree(folder, folder.parent / "then")
        yield three, folder.parent / "then"


def kept_entries(replicas: Replicas) -> int:
    """Return how many entries the log has."""
    count = sa.select(sa.func.count()).select_from(schema.entries)
    return int(replicas.coordination.run(lambda c: c.execute(count).scalar_one()))


@pytest.fixture
def away(lived: tuple[Replicas, Path]) -> Replicas:
    """Everything as it was when `off` came back."""
    three, then = lived
    shutil.rmtree(three.folder)
    shutil.copytree(then, three.folder)
    return replace(three, backups=list(three.backups))


def is_lost(replicas: Replicas, name: str) -> bool:
    return replicas.coordination.run(lambda c: replica(c, replicas.archive, name)).is_lost


def cloned(replicas: Replicas, name: str, steps: Steps, *, source: str | None = None) -> Recovered:
    """Recover a replica, each of whose requests is a step."""

    def places(url: str) -> ObjectStore:
        return SteppedStore(open_store(url), steps) if url.endswith(f"/{name}") else open_store(url)

    return recover(replicas.coordination, replicas.archive, name, source=source, places=places)


def check_equal(replicas: Replicas) -> None:
    """Make sure that backups go on through each replica, and that all have all of them, whole."""
    for name in NAMES:
        replicas.back_up(name)
    for name in NAMES:
        replicas.sync(name)
    head = replicas.coordination.run(lambda c: log_state(c, replicas.archive)).head
    states = [replicas.state(name) for name in NAMES]
    for name, state in zip(NAMES, states, strict=True):
        assert state.blocks.keys() == set(replicas.backups)
        assert state.ends == states[0].ends
        assert replicas.place_of(name).index == head
        assert replicas.is_whole(name)


@pytest.mark.slow
def test_one_that_was_away_for_too_long_is_lost_made_anew_and_equal(away: Replicas) -> None:
    assert is_lost(away, "off")
    with pytest.raises(LostReplicaError, match="it was away, and needs entry 1, which was trimmed"):
        away.sync("off")
    done = away.recover("off")
    assert (done.files, done.kept, done.index) == (FILES - 2, 2, BACKUPS)
    check_equal(away)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_clone_that_crashes_again_and_again_goes_on_with_what_is_there(away: Replicas) -> None:
    there = 2
    for at, named in ((1, "commits/"), (1, "data/"), (12, "end data/"), (18, "write data/"), (2, "create commits/")):
        with pytest.raises((KilledError, HoldfastError)):
            cloned(away, "off", Failing(at, "before", KilledError("killed"), named=named, times=8))
        assert is_lost(away, "off")
        files = sum(1 for path in (away.folder / "off" / "data").rglob("*.*") if path.is_file())
        assert files >= there
        there = files
    assert there == FILES
    with pytest.raises(DamagedError, match="is being recovered from another one"):
        away.state("off")
    done = away.recover("off")
    assert (done.files, done.kept) == (0, FILES)
    check_equal(away)


@pytest.mark.slow
def test_where_the_source_is_gone_in_the_middle_of_a_clone_another_one_is_used(away: Replicas) -> None:
    begun = after(12, "begin data/", lambda: shutil.rmtree(away.folder / "near"))
    with pytest.raises((HoldfastError, StoreError)):
        cloned(away, "off", begun, source="near")
    away.coordination.run(lambda c: mark_lost(c, away.archive, "near", "its disk is gone"))
    done = away.recover("off")
    assert done.source == "far"
    assert done.kept > 10
    assert done.files + done.kept == FILES
    away.coordination.run(lambda c: remove(c, away.archive, "near"))
    assert away.add("near").files == FILES
    check_equal(away)


def after(count: int, named: str, happens: Callable[[], object]) -> Steps:
    """Return steps of which one has something happen."""
    left = count

    def tell(name: str) -> None:
        nonlocal left
        if named in name:
            left -= 1
            if left == 0:
                happens()

    return Steps(0, "before", tell)
