"""The update log is made anew from what the replicas have, and nothing is appended before that is done."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from holdfast.archive import Archive, Change
from holdfast.archive.locks import HeldLocks
from holdfast.archive.model import Adopted, LogPlace
from holdfast.errors import BusyError, HoldfastError, RefusedError, UsageError
from holdfast.replication import rebuilding, schema
from holdfast.replication.errors import EpochOverError, OldStoreError
from holdfast.replication.log import Draft, EntryChange, append
from holdfast.replication.membership import found
from holdfast.replication.rebuilding import Rebuilt, prepare
from holdfast.replication.replicas import log_state, replica, replicas
from holdfast.replication.store import CoordinationStore
from holdfast.replication.survey import Readable
from holdfast.storage import ObjectStore, open_store
from locking import LockBusy, RWLock
from locking.store import StoreError
from tests.support.failing_requests import Failing
from tests.support.replicated import Replicas, nothing
from tests.support.steps import SteppedStore


class KilledError(StoreError):
    """Stands for the end of the process."""


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[CoordinationStore]:
    """A store that was made anew."""
    with CoordinationStore.open(f"sqlite:///{tmp_path}/new.db") as store:
        yield store


@pytest.fixture
def old(two: Replicas) -> Replicas:
    """Replicas at the entries 3 and 2 whose store is that of entry 2."""
    bring_back(two, ahead="near", behind="far")
    return two


def bring_back(two: Replicas, *, ahead: str, behind: str) -> None:
    """Have a replica go one entry further than the other, and bring the store back from before that."""
    two.back_up(ahead)
    two.back_up(ahead)
    two.sync(behind)
    path = Path(two.coordination.url.removeprefix("sqlite:///"))
    shutil.copy(path, copy := path.with_suffix(".copy"))
    two.back_up(ahead)
    shutil.move(copy, path)


def rebuild(
    coordination: CoordinationStore,
    urls: dict[str, str],
    *,
    force: bool = False,
    places: Callable[[str], ObjectStore] = open_store,
    **options: Any,
) -> Rebuilt:
    planned = prepare(coordination, urls, places=places, **options)
    return rebuilding.rebuild(coordination, planned, force=force, places=places)


def urls(given: Replicas, *names: str) -> dict[str, str]:
    return {name: given.place(name).url for name in names or ("near", "far")}


def become(given: Replicas, done: Rebuilt) -> dict[str, str]:
    """What a rebuilding has made of each replica, once it is known that the store tells the same."""
    rows = given.coordination.run(lambda c: replicas(c, given.archive))
    fates = {fate.told.name: fate.lost for fate in done.done.survey.fates}
    assert {row.name: row.lost_reason.removeprefix("when the store was rebuilt: ") for row in rows} == fates
    assert {row.name: row.is_lost for row in rows} == {name: bool(lost) for name, lost in fates.items()}
    return fates


def go_on(given: Replicas, *names: str) -> None:
    """Recover, back up and sync: then all are equal and whole."""
    for row in given.coordination.run(lambda c: replicas(c, given.archive)):
        if row.is_lost:
            given.recover(row.name)
    for name in names or ("near", "far"):
        given.back_up(name)
    for name in names or ("near", "far"):
        given.sync(name)
    states = [given.state(name) for name in names or ("near", "far")]
    assert all(given.is_whole(name) for name in names or ("near", "far"))
    assert len({frozenset(state.blocks) for state in states}) == 1
    assert all(dict(state.ends) == dict(states[0].ends) for state in states)


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


def test_replicas_without_any_entry_are_enough(two: Replicas, empty: CoordinationStore) -> None:
    two.coordination = empty
    assert become(two, rebuild(empty, urls(two))) == {"near": "", "far": ""}
    go_on(two)


def test_a_store_from_an_older_copy_is_noticed_and_rebuilt(old: Replicas) -> None:
    for name in ("near", "far"):
        with pytest.raises(OldStoreError, match="the-coordination-store-is-gone"):
            old.back_up(name)
    done = rebuild(old.coordination, {})
    assert become(old, done) == {"near": "", "far": "it ends at entry 2, and near at 3"}
    assert done.done.given_up == 0
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
    two.coordination.run(lambda c: c.execute(schema.replicas.update().values(is_lost=True)))
    with pytest.raises(RefusedError, match="there is nothing to rebuild"):
        rebuild(two.coordination, urls(two))
    assert become(two, rebuild(two.coordination, {}, force=True))["near"] == ""
    go_on(two)


def test_a_store_that_is_wrong_is_rebuilt_also_where_it_calls_every_replica_lost(old: Replicas) -> None:
    old.coordination.run(lambda c: c.execute(schema.replicas.update().values(is_lost=True)))
    assert become(old, rebuild(old.coordination, {}))["near"] == ""
    go_on(old)


def test_entries_that_only_a_store_has_are_told_when_they_are_given_up(two: Replicas) -> None:
    two.back_up("near")
    near = two.open("near")
    _, acting = near.in_use()
    draft = Draft("lonely", EntryChange(kind="backup"), planned_at=1)
    two.coordination.run(lambda c: append(c, acting, draft))
    done = rebuild(two.coordination, {}, force=True)
    assert done.done.given_up == 1
    go_on(two)


def test_a_replica_that_cannot_be_read_is_lost_where_that_is_said(three: Replicas, empty: CoordinationStore) -> None:
    three.back_up("near")
    three.sync("off")
    three.coordination = empty
    shutil.move(three.folder / "far", three.folder / "away")
    where = urls(three, "near", "far", "off")
    with pytest.raises(RefusedError, match=r"far \(.*\) cannot be read: .* or leave it out by --without far"):
        rebuild(empty, where)
    assert empty.run(lambda c: c.execute(sa.select(schema.archives)).all()) == []
    fates = become(three, rebuild(empty, where, without=["far"]))
    assert (fates["near"], fates["off"], "there is no archive.json" in fates["far"]) == ("", "", True)
    assert not (three.folder / "far").exists()
    shutil.move(three.folder / "away", three.folder / "far")
    with pytest.raises(HoldfastError, match="replica far is lost"):
        three.sync("far")
    go_on(three, "near", "far", "off")


@pytest.mark.parametrize(("source", "lost"), [("near", "far"), ("far", "near")])
def test_of_replicas_that_contradict_each_other_somebody_has_to_choose(
    two: Replicas, empty: CoordinationStore, source: str, lost: str
) -> None:
    place = two.place_of("near")
    for name in ("near", "far"):  # what two stores would have made of one
        archive = Archive.open(two.place(name))
        log = place.model_copy(update={"replica": name, "index": 1, "entry": f"of {name}"})
        change = two.backup(archive.store)
        archive.add(partial(_at, change, log), check=nothing, fence=None)
    two.coordination = empty
    with pytest.raises(RefusedError, match=r"has executed another entry 1 than .*: say by --from"):
        rebuild(empty, urls(two))
    assert {two.place_of(name).store for name in ("near", "far")} == {place.store}
    fates = become(two, rebuild(empty, urls(two), source=source))
    assert fates[source] == ""
    assert fates[lost] == f"it has executed another entry 1 than {source}"
    go_on(two)
    assert len(two.state(lost).aside) == 1


def _at(change: Callable[[Any], Change], log: LogPlace, state: Any) -> Change:
    planned = change(state)
    return Change(kind=planned.kind, add=planned.add, log=log)


def test_a_contradiction_is_seen_also_behind_entries_that_only_one_has(two: Replicas, empty: CoordinationStore) -> None:
    two.back_up("near")
    two.back_up("near")
    archive = Archive.open(two.place("far"))
    log = two.place_of("far").model_copy(update={"index": 1, "entry": "another"})
    archive.add(partial(_at, two.backup(archive.store), log), check=nothing, fence=None)
    with pytest.raises(RefusedError, match="far has executed another entry 1 than near"):
        rebuild(empty, urls(two))


def test_a_replica_that_goes_further_than_the_chosen_one_is_lost(two: Replicas, empty: CoordinationStore) -> None:
    two.back_up("near")
    two.coordination = empty
    fates = become(two, rebuild(empty, urls(two), source="far"))
    assert fates == {"far": "", "near": "it has entries up to 1, and far up to 0"}
    go_on(two)


def test_blocks_of_which_commits_do_not_tell_the_entry_are_not_lost_unsaid(
    two: Replicas, empty: CoordinationStore
) -> None:
    two.back_up("far")
    archive = Archive.open(two.place("far"))
    place = two.place_of("far")
    archive.add(
        lambda state: Change(kind="elected", log=place.model_copy(update={"entry": ""})), check=nothing, fence=None
    )
    near = Archive.open(two.place("near"))
    beyond = two.place_of("near").model_copy(update={"index": 5, "entry": ""})
    near.add(lambda state: Change(kind="elected", log=beyond), check=nothing, fence=None)
    with pytest.raises(RefusedError, match="far has 1 blocks at entry 1 that near has not: say by --from"):
        rebuild(empty, urls(two))


def commit(given: Replicas, name: str, change: Change, **place: Any) -> None:
    """Have a replica make a commit by which it then stands at some place in the log."""
    log = given.place_of(name).model_copy(update=place)
    archive = Archive.open(given.place(name))
    archive.add(lambda state: replace(change, log=log), check=nothing, fence=None)


def test_of_equals_the_one_with_a_block_of_a_failed_quorum_is_what_the_other_is_made_like(
    two: Replicas, empty: CoordinationStore
) -> None:
    two.back_up("far")
    commit(two, "near", Change(kind="failed"), index=1, entry=two.place_of("far").entry)
    two.coordination = empty
    fates = become(two, rebuild(empty, urls(two)))
    assert fates == {"far": "", "near": "it has not all that far has at entry 1"}
    go_on(two)


@pytest.mark.parametrize("told", [True, False])
def test_a_replica_that_has_still_what_was_truncated_later_contradicts_nobody(
    two: Replicas, empty: CoordinationStore, told: bool
) -> None:
    two.back_up("near")
    two.sync("far")
    (block,) = two.backups[-1:]
    commit(two, "near", Change(kind="truncation", remove=(block,)), index=2, entry="a truncation")
    if told:  # which entry they have in common; else that it was removed
        commit(two, "near", Change(kind="vacuum", vacuumed=(block,)), entry="")
    else:
        archive = Archive.open(two.place("far"))
        place = two.place_of("far").model_copy(update={"entry": "", "recovering": True, "index": 0})
        archive.add(lambda state: Change(kind="recovering", log=place), check=nothing, fence=None)
        here = place.model_copy(update={"recovering": False, "index": 1})
        adopted = Adopted(ends=dict(archive.state.ends), streams={})
        archive.add(lambda state: Change(kind="recovered", log=here, adopted=adopted), check=nothing, fence=None)
    two.coordination = empty
    assert become(two, rebuild(empty, urls(two))) == {"near": "", "far": "it ends at entry 1, and near at 2"}
    go_on(two)


def test_a_contradiction_is_seen_also_where_both_have_been_rebuilt_since(
    two: Replicas, empty: CoordinationStore
) -> None:
    for name in ("near", "far"):
        commit(two, name, Change(kind="hold"), index=1, entry=f"of {name}")
        commit(two, name, Change(kind="rebuilt"), store="another", entry="")
    with pytest.raises(RefusedError, match="has executed another entry 1 than"):
        rebuild(empty, urls(two))


def test_everything_that_is_there_counts_and_what_had_not_counted_yet_is_told(two: Replicas) -> None:
    two.back_up("near")
    (block,) = two.backups[-1:]
    row = {
        "archive": two.archive, "index": 1, "block": block, "source": "shop_db", "size": 2, "state": "pending",
        "deadline": 0.0, "end_before": "", "stream_before": "", "dropped_by": 0,
    }  # fmt: skip
    two.coordination.run(lambda c: c.execute(schema.quorums.insert(), row))
    done = rebuild(two.coordination, {}, force=True)
    assert done.done.unsettled == (block,)
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


def test_who_acted_for_a_replica_before_acts_no_more(two: Replicas) -> None:
    near = two.open("near")
    _, acting = near.in_use()
    rebuild(two.coordination, {}, force=True)
    with pytest.raises(EpochOverError):
        two.coordination.run(lambda c: append(c, acting, Draft("e", EntryChange(kind="backup"), planned_at=0)))


def test_nothing_is_appended_any_more_once_a_rebuilding_has_begun(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, acting = two.open("near").in_use()

    def die(*given: Any) -> None:
        raise KilledError("killed")

    monkeypatch.setattr(rebuilding, "_move", die)
    with pytest.raises(KilledError):
        rebuild(two.coordination, {}, force=True)
    with pytest.raises(EpochOverError):
        two.coordination.run(lambda c: append(c, acting, Draft("e", EntryChange(kind="backup"), planned_at=0)))
    with pytest.raises(OldStoreError, match="another store"):
        two.back_up("near")
    monkeypatch.undo()
    rebuild(two.coordination, {})
    go_on(two)


def test_a_replica_that_is_half_recovered_is_lost_and_stays_unreadable(two: Replicas, empty: CoordinationStore) -> None:
    place = two.place_of("far").model_copy(update={"index": 0, "entry": "half", "recovering": True})
    archive = Archive.open(two.place("far"))
    archive.add(lambda state: Change("recovering", log=place), check=nothing, fence=None)
    two.coordination = empty
    assert become(two, rebuild(empty, urls(two)))["far"] == "it was not recovered to its end"
    with pytest.raises(HoldfastError, match="is being recovered"):
        Archive.open(two.place("far"))
    go_on(two)


def test_none_but_half_recovered_ones_are_no_log_to_go_on_from(two: Replicas, empty: CoordinationStore) -> None:
    place = two.place_of("far").model_copy(update={"index": 0, "entry": "half", "recovering": True})
    Archive.open(two.place("far")).add(lambda state: Change("recovering", log=place), check=nothing, fence=None)
    with pytest.raises(RefusedError, match=r"no replica that the log could go on from \(far: it is being recovered"):
        rebuild(empty, {"far": two.place("far").url})


def test_what_lies_at_another_place_is_told_and_not_touched(two: Replicas, empty: CoordinationStore) -> None:
    shutil.copytree(two.folder / "near", two.folder / "copy")
    alone = Archive.create(two.place("alone"), name="alone")
    for name, said in (("copy", "replica near lies there"), ("alone", r"an archive at one place lies there \(alone")):
        with pytest.raises(RefusedError, match=rf"third \(.*\) cannot be read: {said}"):
            rebuild(empty, {**urls(two), "third": two.place(name).url})
    found(empty, alone.store, "third")
    where = {**urls(two), "third": alone.store.url}
    with pytest.raises(UsageError, match=r"several archives, (shop|alone) \(.*\): say which by --archive"):
        rebuild(empty, where)
    assert [each for each in prepare(empty, where, wanted="shop").survey.objections if "a replica of alone" in each]
    with pytest.raises(RefusedError, match=r"third .* a replica of alone"):
        rebuild(empty, where, wanted="shop")
    assert Archive.open(alone.store).state.sequence == 1
    assert not list(alone.store.list("locks/").objects)


def test_names_that_nobody_has_are_wrong_usage(two: Replicas, empty: CoordinationStore) -> None:
    for options in ({"source": "nobody"}, {"without": ["nobody"]}):
        with pytest.raises(UsageError, match="there is no replica nobody among these: far, near"):
            rebuild(empty, urls(two), **options)
    with pytest.raises(UsageError, match=r"nothing tells of an archive with replicas; near: there is no archive.json"):
        rebuild(empty, {"near": str(two.folder / "nowhere")})
    with pytest.raises(UsageError, match=r"nothing tells of an archive with replicas\. Say by --replica"):
        rebuild(empty, {})


def test_replicas_that_the_store_still_knows_are_asked_too(three: Replicas) -> None:
    three.coordination.run(lambda c: c.execute(schema.archives.update().values(store="another")))
    moved = prepare(three.coordination, {"far": three.place("far").url})
    assert [each.name for each in moved.told] == ["far", "near", "off"]


def test_two_cannot_rebuild_at_once(two: Replicas, empty: CoordinationStore, monkeypatch: pytest.MonkeyPatch) -> None:
    move = rebuilding._move

    def meanwhile(*given: Any) -> None:
        monkeypatch.undo()
        with pytest.raises(LockBusy, match="rebuilding the coordination store"):
            rebuild(empty, urls(two))
        move(*given)

    monkeypatch.setattr(rebuilding, "_move", meanwhile)
    rebuild(empty, urls(two))
    two.coordination = empty
    go_on(two)


def test_locks_are_taken_in_the_order_of_the_places_however_replicas_are_called(
    two: Replicas, empty: CoordinationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = rebuilding._locked
    taken: list[str] = []

    def told(each: Readable, wait: float) -> HeldLocks:
        taken.append(each.url)
        return locked(each, wait)

    (two.folder / "a").mkdir()
    moved = {"near": str(shutil.move(two.folder / "near", two.folder / "a" / "near")), "far": two.place("far").url}
    monkeypatch.setattr(rebuilding, "_locked", told)
    rebuild(empty, moved)
    assert taken == [moved["near"], moved["far"]]


def test_two_that_know_of_no_replica_in_common_do_not_both_succeed(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.coordination.run(lambda c: c.execute(schema.archives.update().values(store="another")))
    move = rebuilding._move

    def meanwhile(*given: Any) -> None:
        monkeypatch.undo()
        two.coordination.run(lambda c: c.execute(schema.archives.update().values(store="a third one")))
        move(*given)

    monkeypatch.setattr(rebuilding, "_move", meanwhile)
    with pytest.raises(BusyError, match="somebody else has changed the log of shop meanwhile"):
        rebuild(two.coordination, {})


def test_a_store_that_another_one_has_rebuilt_meanwhile_is_left_alone(
    two: Replicas, empty: CoordinationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = rebuilding._locked

    def late(*given: Any) -> Any:
        monkeypatch.undo()
        rebuild(empty, urls(two))
        return locked(*given)

    monkeypatch.setattr(rebuilding, "_locked", late)
    with pytest.raises(BusyError, match="somebody else has changed the log of shop meanwhile"):
        rebuild(empty, urls(two))
    two.coordination = empty
    go_on(two)


def test_a_replica_that_goes_on_meanwhile_is_asked_again_under_its_locks(
    old: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = rebuilding._locked

    def late(*given: Any) -> Any:
        monkeypatch.undo()
        archive = Archive.open(old.place("near"))
        log = old.place_of("near").model_copy(update={"index": 4, "entry": "late"})
        archive.add(partial(_at, old.backup(archive.store), log), check=nothing, fence=None)
        return locked(*given)

    monkeypatch.setattr(rebuilding, "_locked", late)
    assert rebuild(old.coordination, {}).done.head == 4
    go_on(old)


def test_a_contradiction_that_appears_before_the_locks_are_held_is_seen(
    old: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = rebuilding._locked

    def late(*given: Any) -> Any:
        monkeypatch.undo()
        archive = Archive.open(old.place("far"))
        log = old.place_of("far").model_copy(update={"index": 3, "entry": "another"})
        archive.add(partial(_at, old.backup(archive.store), log), check=nothing, fence=None)
        return locked(*given)

    monkeypatch.setattr(rebuilding, "_locked", late)
    with pytest.raises(RefusedError, match="has executed another entry 3 than"):
        rebuild(old.coordination, {})


def test_a_replica_that_is_changed_in_spite_of_its_locks_is_not_moved(
    two: Replicas, empty: CoordinationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = rebuilding._move

    def late(*given: Any) -> None:
        monkeypatch.undo()
        for name in ("near", "far"):
            archive = Archive.open(two.place(name))
            log = two.place_of(name).model_copy(update={"index": 1, "entry": "late"})
            archive.add(partial(_at, two.backup(archive.store), log), check=nothing, fence=None)
        move(*given)

    monkeypatch.setattr(rebuilding, "_move", late)
    with pytest.raises(BusyError, match=r"somebody else has changed .* meanwhile: start again"):
        rebuild(empty, urls(two))
    assert empty.run(lambda c: c.execute(sa.select(schema.archives)).all()) == []


def test_a_replica_that_is_at_work_is_waited_for(two: Replicas, empty: CoordinationStore) -> None:
    with RWLock(two.place("far"), "replica").write(purpose="a sync"), pytest.raises(LockBusy, match="a sync"):
        rebuild(empty, urls(two))
    with RWLock(two.place("far"), "history").read(purpose="a restore"):
        rebuild(empty, urls(two))


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_any_step_it_lets_nothing_be_appended_and_goes_on_when_run_again(
    two: Replicas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: Any
) -> None:
    # The one that is ahead is moved first: from then on it no longer keeps the other one from going on by itself.
    bring_back(two, ahead="far", behind="near")
    run = CoordinationStore.run
    saved = tmp_path.parent / f"{tmp_path.name}-saved"
    shutil.copytree(tmp_path, saved)
    for at in itertools.count(1):
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
