"""What replicas tell by themselves decides what becomes of each, and what somebody has to say first."""

from __future__ import annotations

import shutil
from functools import partial

import pytest
import sqlalchemy as sa

from holdfast.archive import Archive, Change
from holdfast.archive.format.model import Adopted
from holdfast.common.errors import HoldfastError, RefusedError, UsageError
from holdfast.replication.log import schema
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work.membership import begin_membership
from holdfast.replication.work.rebuild_store import prepare
from tests.support.replicas.rebuilt import at_place, become, commit, go_on, rebuild, urls
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow


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


def test_of_replicas_that_contradict_each_other_a_person_has_to_choose(two: Replicas, empty: CoordinationStore) -> None:
    source, lost = "far", "near"
    place = two.place_of("near")
    for name in ("near", "far"):  # what two stores would have made of one
        archive = Archive.open(two.place(name))
        log = place.model_copy(update={"replica": name, "index": 1, "entry": f"of {name}"})
        change = two.backup(archive.store)
        archive.add(partial(at_place, change, log), check=nothing, fence=None)
    two.coordination = empty
    with pytest.raises(RefusedError, match=r"has executed another entry 1 than .*: say by --from"):
        rebuild(empty, urls(two))
    assert {two.place_of(name).store for name in ("near", "far")} == {place.store}
    fates = become(two, rebuild(empty, urls(two), source=source))
    assert fates[source] == ""
    assert fates[lost] == f"it has executed another entry 1 than {source}"
    go_on(two)
    assert len(two.state(lost).aside) == 1


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
    begin_membership(empty, alone.store, "third")
    where = {**urls(two), "third": alone.store.url}
    with pytest.raises(UsageError, match=r"several archives, (shop|alone) \(.*\): say which by --archive"):
        rebuild(empty, where)
    assert [each for each in prepare(empty, where, word="shop").survey.objections if "a replica of alone" in each]
    with pytest.raises(RefusedError, match=r"third .* a replica of alone"):
        rebuild(empty, where, word="shop")
    assert Archive.open(alone.store).state.sequence == 1
    assert not list(alone.store.list("locks/").objects)


def test_names_that_nobody_has_are_wrong_usage(two: Replicas, empty: CoordinationStore) -> None:
    for options in ({"source": "nobody"}, {"without": ["nobody"]}):
        with pytest.raises(UsageError, match="there is no replica nobody among these: far, near"):
            rebuild(empty, urls(two), **options)
    with pytest.raises(UsageError, match=r"nothing shows an archive with replicas; near: there is no archive.json"):
        rebuild(empty, {"near": str(two.folder / "nowhere")})
    with pytest.raises(UsageError, match=r"nothing shows an archive with replicas\. Say by --replica"):
        rebuild(empty, {})


def test_a_replica_that_goes_further_than_the_chosen_one_is_lost(two: Replicas, empty: CoordinationStore) -> None:
    two.back_up("near")
    two.coordination = empty
    fates = become(two, rebuild(empty, urls(two), source="far"))
    assert fates == {"far": "", "near": "it has entries up to 1, and far up to 0"}
    go_on(two)
