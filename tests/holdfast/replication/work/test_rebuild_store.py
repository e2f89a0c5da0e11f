"""The update log is made anew from what the replicas have, and nothing is appended before that is done."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from holdfast.archive import Archive, Change
from holdfast.common.errors import BusyError, RefusedError
from holdfast.replication.log import schema
from holdfast.replication.log.errors import EpochOverError, OldStoreError
from holdfast.replication.log.log import Draft, EntryChange, append
from holdfast.replication.log.replicas import log_state, replica, replicas
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work import rebuild_store
from holdfast.replication.work.rebuild_store import prepare
from holdfast.storage import ObjectStore, open_store
from locking import LockBusy, RWLock
from tests.support.jobs.steps import SteppedStore, Steps, before_first
from tests.support.replicas.rebuilt import KilledError, at_place, become, bring_back, go_on, rebuild, urls
from tests.support.replicas.replicated import Replicas, nothing
from tests.support.stores.failing_requests import Failing

pytestmark = pytest.mark.slow


def before_the_first_move(action: Callable[[], None]) -> Callable[[str], ObjectStore]:
    """Return what opens replicas, so that something is done right before the first commit that one of them makes."""
    steps = before_first("create commits/", action)
    return lambda url: SteppedStore(open_store(url), steps)


def test_a_store_that_is_gone_is_made_anew_from_replicas_that_are_equal(
    two: Replicas, empty: CoordinationStore
) -> None:
    for _ in range(3):
        two.back_up("near")
    two.sync("far")
    blocks = set(two.backups)
    two.coordination = empty
    done = rebuild(empty, urls(two))
    assert become(two, done) == {"near": "", "far": ""}
    log = empty.run(lambda c: log_state(c, two.archive))
    assert (log.head, log.start, log.store, log.name) == (3, 4, done.store, "shop")
    assert {two.place_of(name).store for name in ("near", "far")} == {done.store}
    assert {(row.pointer, row.epoch) for row in empty.run(lambda c: replicas(c, two.archive))} == {(4, 1)}
    assert two.back_up("near") == 4
    go_on(two)
    assert blocks <= two.state("far").blocks.keys()


ROT = "verification has found 1 files that are damaged or missing"


def test_a_replica_that_was_lost_through_damage_stays_lost_until_it_is_recovered(two: Replicas) -> None:
    two.back_up("near")
    two.sync("far")
    file = next((two.folder / "near" / "data").rglob("*.parquet"))
    file.unlink()
    two.change("near", is_lost=True, lost_reason=ROT)
    for _ in range(2):  # the second time, it was a rebuilding that has written why
        done = rebuild(two.coordination, {}, force=True)
        assert done.survey.source.name == "far"
        assert become(two, done) == {"near": ROT, "far": ""}
        assert two.coordination.run(lambda c: replica(c, two.archive, "near")).lost_reason == ROT
    two.recover("near")
    assert two.is_whole("near")


def test_a_replica_that_gets_lost_while_a_rebuilding_waits_for_its_locks_stays_lost(two: Replicas) -> None:
    planned = prepare(two.coordination, {})
    two.change("near", is_lost=True, lost_reason=ROT)
    rebuild_store.rebuild(two.coordination, planned, force=True)
    assert two.coordination.run(lambda c: replica(c, two.archive, "near")).lost_reason == ROT


def test_the_log_goes_on_from_a_lost_replica_only_where_it_is_named(two: Replicas) -> None:
    two.back_up("near")
    two.change("near", is_lost=True, lost_reason=ROT)
    with pytest.raises(RefusedError, match="near has entries up to 1, and far up to 0: say by --from"):
        rebuild(two.coordination, {}, force=True)
    fates = become(two, rebuild(two.coordination, {}, force=True, source="near"))
    assert fates == {"near": "", "far": "it ends at entry 0, and near at 1"}
    go_on(two)


def test_a_store_from_an_older_copy_is_noticed_and_rebuilt(old: Replicas) -> None:
    for name in ("near", "far"):
        with pytest.raises(OldStoreError, match="the-coordination-store-is-gone"):
            old.back_up(name)
    done = rebuild(old.coordination, {})
    assert become(old, done) == {"near": "", "far": "it ends at entry 2, and near at 3"}
    assert done.given_up == 0
    go_on(old)
    assert set(old.backups[:4]) <= old.state("far").blocks.keys()


def test_where_nothing_is_wrong_there_is_nothing_to_rebuild_unless_forced(two: Replicas) -> None:
    two.back_up("near")
    with pytest.raises(RefusedError, match=r"there is nothing to rebuild: .* can be read\. --force rebuilds"):
        rebuild(two.coordination, urls(two))
    shutil.move(two.folder / "far", two.folder / "away")
    with pytest.raises(RefusedError, match=r"there is nothing to rebuild: .* Look again once far can be, too; --force"):
        rebuild(two.coordination, urls(two))
    shutil.move(two.folder / "away", two.folder / "far")
    two.lose("near", "far")
    with pytest.raises(RefusedError, match="there is nothing to rebuild"):
        rebuild(two.coordination, urls(two))
    assert become(two, rebuild(two.coordination, {}, force=True, source="near"))["near"] == ""
    go_on(two)


def test_a_store_that_is_wrong_is_rebuilt_also_where_it_calls_every_replica_lost(old: Replicas) -> None:
    old.lose("near", "far")
    sure = r"near is lost \(it was away\), and so are all that could be read: say by --from near that it is right"
    with pytest.raises(RefusedError, match=sure):
        rebuild(old.coordination, {})
    assert become(old, rebuild(old.coordination, {}, source="near")) == {"near": "", "far": "it was away"}
    go_on(old)


def test_everything_that_is_there_counts_and_what_had_not_counted_yet_is_told(two: Replicas) -> None:
    two.back_up("near")
    (block,) = two.backups[-1:]
    row = {
        "archive": two.archive, "index": 1, "block": block, "source": "shop_db", "size": 2, "state": "pending",
        "deadline": 0.0, "end_before": "", "stream_before": "", "dropped_by": 0,
    }  # fmt: skip
    two.coordination.run(lambda c: c.execute(schema.quorums.insert(), row))
    done = rebuild(two.coordination, {}, force=True)
    assert done.unsettled == (block,)
    a, q = schema.archives.c, schema.quorums
    assert two.coordination.run(lambda c: c.execute(sa.select(a.quorum_index)).scalar_one()) == 1
    assert two.coordination.run(lambda c: c.execute(sa.select(q)).all()) == []


def test_abandoned_blocks_stay_abandoned(two: Replicas, empty: CoordinationStore) -> None:
    far = Archive.open(two.place("far"))
    far.add(lambda state: Change(kind="vacuum", abandoned=("d" * 32,)), check=nothing, fence=None)
    row = {"archive": two.archive, "block": "e" * 32, "replica": "near", "at": 1.0}
    two.coordination.run(lambda c: c.execute(schema.abandoned.insert(), row))
    rebuild(two.coordination, {}, force=True)
    b = schema.abandoned.c
    there = two.coordination.run(lambda c: c.execute(sa.select(b.block, b.replica).order_by(b.block)).all())
    assert [tuple(each) for each in there] == [("d" * 32, "far"), ("e" * 32, "near")]


def test_another_leader_comes_after_a_rebuilding(two: Replicas) -> None:
    values = {"leader": "near", "leader_epoch": 4, "leader_until": 9e9}
    two.coordination.run(lambda c: c.execute(schema.archives.update().values(**values)))
    rebuild(two.coordination, {}, force=True)
    a = schema.archives.c
    row = two.coordination.run(lambda c: c.execute(sa.select(a.leader, a.leader_epoch, a.leader_until)).one())
    assert tuple(row) == ("", 5, 0.0)


def test_nothing_is_appended_any_more_once_a_rebuilding_has_begun(two: Replicas) -> None:
    _, acting = two.open("near").in_use()

    def die() -> None:
        raise KilledError("killed")

    with pytest.raises(KilledError):
        rebuild(two.coordination, {}, force=True, places=before_the_first_move(die))
    with pytest.raises(EpochOverError):
        two.coordination.run(lambda c: append(c, acting, Draft("e", EntryChange(kind="backup"), planned_at=0)))
    with pytest.raises(OldStoreError, match="another store"):
        two.back_up("near")
    rebuild(two.coordination, {})
    go_on(two)


def test_replicas_that_the_store_still_knows_are_asked_too(three: Replicas) -> None:
    three.coordination.run(lambda c: c.execute(schema.archives.update().values(store="another")))
    moved = prepare(three.coordination, {"far": three.place("far").url})
    assert [each.name for each in moved.replicas] == ["far", "near", "off"]


def test_two_cannot_rebuild_at_once(two: Replicas, empty: CoordinationStore) -> None:
    def meanwhile() -> None:
        with pytest.raises(LockBusy, match="rebuilding the coordination store"):
            rebuild(empty, urls(two))

    rebuild(empty, urls(two), places=before_the_first_move(meanwhile))
    two.coordination = empty
    go_on(two)


def test_locks_are_taken_in_the_order_of_the_places_however_replicas_are_called(
    two: Replicas, empty: CoordinationStore
) -> None:
    written: dict[str, str] = {}

    def told(url: str) -> ObjectStore:
        def tell(name: str) -> None:
            if name.startswith(("put ", "create ")):
                written.setdefault(url, name)

        return SteppedStore(open_store(url), Steps(0, "before", tell))

    (two.folder / "a").mkdir()
    moved = {"near": str(shutil.move(two.folder / "near", two.folder / "a" / "near")), "far": two.place("far").url}
    rebuild(empty, moved, places=told)
    assert list(written) == [moved["near"], moved["far"]]
    assert all("locks/" in name for name in written.values())


def test_a_store_that_another_one_has_rebuilt_meanwhile_is_left_alone(two: Replicas, empty: CoordinationStore) -> None:
    planned = prepare(empty, urls(two))
    rebuild(empty, urls(two))
    with pytest.raises(BusyError, match="another process has changed the log of shop meanwhile"):
        rebuild_store.rebuild(empty, planned)
    two.coordination = empty
    go_on(two)


def test_a_replica_that_goes_on_meanwhile_is_asked_again_under_its_locks(old: Replicas) -> None:
    planned = prepare(old.coordination, {})
    archive = Archive.open(old.place("near"))
    log = old.place_of("near").model_copy(update={"index": 4, "entry": "late"})
    archive.add(partial(at_place, old.backup(archive.store), log), check=nothing, fence=None)
    assert rebuild_store.rebuild(old.coordination, planned).head == 4
    go_on(old)


def test_a_contradiction_that_appears_before_the_locks_are_held_is_seen(old: Replicas) -> None:
    planned = prepare(old.coordination, {})
    archive = Archive.open(old.place("far"))
    log = old.place_of("far").model_copy(update={"index": 3, "entry": "another"})
    archive.add(partial(at_place, old.backup(archive.store), log), check=nothing, fence=None)
    with pytest.raises(RefusedError, match="has executed another entry 3 than"):
        rebuild_store.rebuild(old.coordination, planned)


def test_a_replica_that_is_changed_in_spite_of_its_locks_is_not_moved(two: Replicas, empty: CoordinationStore) -> None:
    def late() -> None:
        for name in ("near", "far"):
            archive = Archive.open(two.place(name))
            log = two.place_of(name).model_copy(update={"index": 1, "entry": "late"})
            archive.add(partial(at_place, two.backup(archive.store), log), check=nothing, fence=None)

    with pytest.raises(BusyError, match=r"another process has changed .* meanwhile: start again"):
        rebuild(empty, urls(two), places=before_the_first_move(late))
    assert empty.run(lambda c: c.execute(sa.select(schema.archives)).all()) == []


def test_a_replica_that_is_at_work_is_waited_for(two: Replicas, empty: CoordinationStore) -> None:
    with RWLock(two.place("far"), "replica").write(purpose="a sync"), pytest.raises(LockBusy, match="a sync"):
        rebuild(empty, urls(two))
    with RWLock(two.place("far"), "history").read(purpose="a restore"):
        rebuild(empty, urls(two))


@pytest.mark.parametrize(
    ("when", "stride"),
    [("before", 8), *(pytest.param(when, 1, marks=pytest.mark.exhaustive) for when in ("before", "after"))],
)
def test_killed_at_any_step_it_lets_nothing_be_appended_and_goes_on_when_run_again(
    two: Replicas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: Any, stride: int
) -> None:
    # The one that is ahead is moved first: from then on it no longer keeps the other one from going on by itself.
    bring_back(two, ahead="far", behind="near")
    run = CoordinationStore.run
    saved = tmp_path.parent / f"{tmp_path.name}-saved"
    shutil.copytree(tmp_path, saved)
    for at in itertools.count(1, stride):
        shutil.rmtree(tmp_path)
        shutil.copytree(saved, tmp_path)
        failing = Failing(at, when, KilledError("killed"))

        def stepped(url: str, failing: Failing = failing) -> ObjectStore:
            return SteppedStore(open_store(url), failing)

        def counted(self: CoordinationStore, work: Any, *, failing: Failing = failing, **more: Any) -> Any:
            with failing.step("transaction"):
                return run(self, work, **more)

        with monkeypatch.context() as patched:
            patched.setattr(CoordinationStore, "run", counted)
            try:
                rebuild(two.coordination, {}, places=stepped)
            except KilledError:
                killed = True
            else:
                killed = False
        if not killed and len(failing.requests) < at:
            break
        if two.coordination.run(lambda c: log_state(c, two.archive)).head < 3:
            for name in ("near", "far"):
                with pytest.raises(OldStoreError):
                    two.back_up(name)
            rebuild(two.coordination, {})
        go_on(two)
        assert set(two.backups[:4]) <= two.state("far").blocks.keys()
    assert at > 20


@pytest.mark.service
@pytest.mark.parametrize("both", ["postgresql"], indirect=True)
def test_a_store_in_postgresql_is_rebuilt_too(tmp_path: Path, both: CoordinationStore) -> None:
    two = Replicas.begun(tmp_path, both, "far")
    two.back_up("near")
    both.run(lambda c: c.execute(schema.archives.update().values(head=0)))
    assert become(two, rebuild(both, {}))["near"] == ""
    assert both.run(lambda c: replica(c, two.archive, "far")).is_lost
    go_on(two)


def test_two_that_know_of_no_replica_in_common_do_not_both_succeed(two: Replicas) -> None:
    two.coordination.run(lambda c: c.execute(schema.archives.update().values(store="another")))

    def meanwhile() -> None:
        two.coordination.run(lambda c: c.execute(schema.archives.update().values(store="a third one")))

    with pytest.raises(BusyError, match="another process has changed the log of shop meanwhile"):
        rebuild(two.coordination, {}, places=before_the_first_move(meanwhile))
