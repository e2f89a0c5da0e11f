"""A sync gives an entry up by itself, once it is known for long enough that nobody has its files."""

from __future__ import annotations

import shutil
from datetime import timedelta
from typing import Any

import pytest

from holdfast.common.errors import DamagedError, HoldfastError, RefusedError
from holdfast.config.archives_model import GAP_AFTER
from holdfast.replication.log import schema
from holdfast.replication.log.replicas import replicas
from holdfast.replication.log.status import status
from holdfast.replication.work import giving_up
from holdfast.replication.work import sync as sync_module
from holdfast.replication.work.giving_up import give_up, give_up_in_time
from holdfast.replication.work.replica import Synced
from holdfast.replication.work.sync import sync_replica
from locking import LockBusy, RWLock
from locking.store import StoreUnavailable
from tests.support.replicas.given_up import append, changes, destroyed, ends, equal, full
from tests.support.replicas.replicated import Replicas

pytestmark = pytest.mark.slow


def known_for(given: Replicas, index: int, time: timedelta) -> None:
    """Let it have been known for some time that nobody has the files of an entry."""
    m = schema.missing.c
    update = schema.missing.update().where(m.index == index).values(since=m.since - time.total_seconds())
    assert given.coordination.run(lambda c: c.execute(update).rowcount) == 1


def nobody_looked_for(given: Replicas, time: timedelta) -> None:
    """Let some time pass in which no replica was synced."""
    m, seconds = schema.missing.c, time.total_seconds()
    update = schema.missing.update().values(since=m.since - seconds, seen=m.seen - seconds)
    given.coordination.run(lambda c: c.execute(update))


def sync(given: Replicas, name: str, gap_after: timedelta | None = GAP_AFTER) -> Synced:
    (row,) = [row for row in given.coordination.run(lambda c: replicas(c, given.archive)) if row.name == name]
    return sync_replica(given.coordination, given.archive, row, wait=0, gap_after=gap_after)


def missing(given: Replicas) -> list[int]:
    (found,) = given.coordination.run(lambda c: status(c, given.archive))
    return [index for index, _ in found.missing]


def test_a_sync_gives_up_by_itself_what_nobody_has_had_for_long(stuck: Replicas) -> None:
    with pytest.raises(DamagedError, match=r"which entry 2 .*: it is given up by itself by a sync in 24 h"):
        sync(stuck, "far")
    assert missing(stuck) == [2]
    known_for(stuck, 2, timedelta(hours=23))
    with pytest.raises(DamagedError, match=r"by a sync in 60 min"):
        sync(stuck, "off")
    known_for(stuck, 2, timedelta(hours=1))
    with pytest.raises(DamagedError, match=r"^entries 2 are given up: .*; no .* which entry 3 .* in 24 h"):
        sync(stuck, "far")  # each has a time of its own
    assert missing(stuck) == [3]
    known_for(stuck, 3, GAP_AFTER)
    done = sync(stuck, "off")
    assert done.given_up == (3,)
    assert missing(stuck) == []
    state = equal(stuck, "far", "off")
    assert (state.ends["shop_db"], state.streams["shop_db"]) == ("0/A00", "0/A00")


def test_nothing_is_given_up_while_somebody_who_may_have_it_cannot_be_asked(three: Replicas) -> None:
    append(three, "near", full("0/A00"))
    three.sync("far")
    append(three, "near", changes("0/A00", "0/B00"))
    destroyed(three, "near")
    with pytest.raises(DamagedError, match="which entry 2"):
        sync(three, "far")
    off = three.folder / "off"
    off.rename(three.folder / "away")
    known_for(three, 2, 2 * GAP_AFTER)
    with pytest.raises(DamagedError, match=r"It is not given up by itself: entry 2 waits for off \("):
        sync(three, "far")
    assert missing(three) == []
    (three.folder / "away").rename(off)
    with pytest.raises(DamagedError, match=r"in 24 h"):
        sync(three, "far")  # the time begins anew
    assert ends(three) == ("0/B00", "0/B00")


@pytest.mark.parametrize("whole", [True, False])
def test_files_that_turn_up_after_all_are_used_if_they_are_what_was_written(three: Replicas, whole: bool) -> None:
    append(three, "near", full("0/A00"))
    three.sync("far")
    block = append(three, "near", changes("0/A00", "0/B00"))
    found = {file.path: three.place("near").get(file.path) for file in block.files()}
    destroyed(three, "near")
    with pytest.raises(DamagedError, match=r"in 24 h"):
        sync(three, "far")
    known_for(three, 2, GAP_AFTER)
    for path, content in found.items():
        with three.place("off").open_write(path) as file:
            file.write(content if whole else bytes(len(content)))
    done = sync(three, "far")
    assert done.given_up == (() if whole else (2,))
    assert (block.id in equal(three, "far", "off").blocks) is whole
    assert missing(three) == []


def test_a_sync_goes_on_where_another_one_has_given_it_up_meanwhile(
    stuck: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    def others_first(*arguments: Any, **named: Any) -> tuple[timedelta, tuple[int, ...]]:
        for index in (2, 3):
            give_up(stuck.coordination, stuck.archive, index)
            if index == 2:
                stuck.sync("off", upto=2)
        return give_up_in_time(*arguments, **named)

    monkeypatch.setattr(sync_module, "give_up_in_time", others_first)
    assert sync(stuck, "far").given_up == ()
    assert equal(stuck, "far", "off").ends["shop_db"] == "0/A00"


@pytest.fixture
def waiting(three: Replicas) -> Replicas:
    """Replica `near` is lost, and the others know for an hour less than it takes that nobody has entry 2."""
    append(three, "near", full("0/A00"))
    three.sync("far")
    three.sync("off")
    append(three, "near", changes("0/A00", "0/B00"))
    three.lose("near")
    (three.folder / "near" / "data").rename(three.folder / "data")
    with pytest.raises(DamagedError, match=r"which entry 2 .* in 24 h"):
        sync(three, "far")
    known_for(three, 2, GAP_AFTER - timedelta(hours=1))
    return three


def comes_back(given: Replicas) -> None:
    (given.folder / "data").rename(given.folder / "near" / "data")


def test_the_time_is_forgotten_once_somebody_has_executed_the_entry(waiting: Replicas) -> None:
    comes_back(waiting)
    assert sync(waiting, "far").files > 0
    shutil.rmtree(waiting.folder / "near" / "data")
    destroyed(waiting, "far")
    with pytest.raises(DamagedError, match=r"which entry 2 .* in 24 h"):
        sync(waiting, "off")


def test_a_lost_replica_that_cannot_be_read_lets_the_time_begin_anew(waiting: Replicas) -> None:
    (waiting.folder / "near").rename(waiting.folder / "away")
    with pytest.raises(DamagedError, match=r"by itself: entry 2 waits for near \("):
        sync(waiting, "far")
    assert missing(waiting) == []
    give_up(waiting.coordination, waiting.archive, 2)  # a person may
    assert sync(waiting, "far").given_up == ()


def test_a_store_that_does_not_answer_lets_the_time_begin_anew(
    waiting: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(store: Any, files: Any) -> Any:
        raise StoreUnavailable("timed out")

    with monkeypatch.context() as patch:
        patch.setattr(giving_up, "missing_files", silent)
        with pytest.raises(DamagedError, match="by itself: timed out"):
            sync(waiting, "far")
    assert missing(waiting) == []


def test_the_time_in_which_nobody_looked_does_not_count(waiting: Replicas) -> None:
    nobody_looked_for(waiting, GAP_AFTER + timedelta(hours=1))
    with pytest.raises(DamagedError, match=r"which entry 2 .* in 24 h"):
        sync(waiting, "far")
    nobody_looked_for(waiting, GAP_AFTER - timedelta(hours=1))
    with pytest.raises(DamagedError, match=r"which entry 2 .* in 60 min"):
        sync(waiting, "off")


def test_who_has_executed_it_by_the_store_is_not_taken_for_one_without_it(three: Replicas) -> None:
    append(three, "near", full("0/A00"))
    three.sync("far")
    three.sync("off")
    older = three.folder / "older"
    shutil.copytree(three.folder / "near", older)
    append(three, "near", changes("0/A00", "0/B00"))
    (three.folder / "near").rename(three.folder / "newer")
    older.rename(three.folder / "near")
    with pytest.raises(RefusedError, match="near has executed entry 2"):
        give_up(three.coordination, three.archive, 2)
    with pytest.raises(HoldfastError):
        sync(three, "far")
    assert missing(three) == []


def test_who_works_on_a_replica_is_waited_for_and_the_time_goes_on(waiting: Replicas) -> None:
    known_for(waiting, 2, timedelta(hours=1))
    with RWLock(waiting.place("off"), "replica").write(purpose="a sync"), pytest.raises(LockBusy):
        sync(waiting, "far")
    assert sync(waiting, "far").given_up == (2,)
