"""A coordination store that is brought back from an old copy loses no backup in silence.

In each case a copy of the store is put back that does not know what replicas have executed since.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.common.errors import BusyError, OutcomeUnknownError, RefusedError
from holdfast.replication.log import log, quorum
from holdfast.replication.log.errors import MissingFilesError, OldStoreError
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.log.trimming import trim
from holdfast.replication.work import membership
from holdfast.replication.work.consistent_read import open_to_read
from holdfast.replication.work.quorum_wait import QuorumWait
from tests.support.replicas.quorums import acknowledged, overdue, with_quorum
from tests.support.replicas.rebuilt import away, become, copied, go_on, go_two_ways, joined, rebuild, urls
from tests.support.replicas.replicated import Replicas, nothing

UNKNOWN = "which the coordination store does not know"


def test_a_replica_that_was_away_is_told_from_one_that_is_behind_also_when_the_log_was_trimmed(two: Replicas) -> None:
    put_back = copied(two)
    two.back_up("far")
    put_back()
    away(two, "far")
    two.back_up("near")
    two.back_up("near")
    two.change("far", active_until=0.0)
    assert trim(two.coordination, two.archive, min_keep=0, max_keep=0).lost == ("far",)
    away(two, "far", back=True)
    with pytest.raises(OldStoreError, match=rf"far has executed entry 1 \(.*\), {UNKNOWN}"):
        two.recover("far")
    with pytest.raises(OldStoreError, match=rf"far has executed entry 1 \(.*\), {UNKNOWN}"):
        two.back_up("near")
    rebuild(two.coordination, urls(two), source="near")
    go_on(two)
    assert two.backups[1] not in two.state("far").blocks
    assert two.backups[1] in two.state("far").aside


def test_ids_stay_known_when_the_log_is_rebuilt(two: Replicas) -> None:
    put_back = copied(two)
    two.back_up("far")
    put_back()
    away(two, "far")
    two.back_up("near")
    rebuild(two.coordination, urls(two), without=("far",), force=True)
    two.back_up("near")
    away(two, "far", back=True)
    with pytest.raises(OldStoreError, match=rf"far has executed entry 1 \(.*\), {UNKNOWN}"):
        two.back_up("near")
    rebuild(two.coordination, urls(two), source="near")
    go_on(two)


def test_a_store_from_before_a_rebuilding_is_refused(two: Replicas) -> None:
    two.back_up("near")
    two.sync("far")
    put_back = copied(two)
    rebuild(two.coordination, urls(two), force=True)
    put_back()
    with pytest.raises(OldStoreError, match="it is another store, or a new one"):
        two.back_up("near")
    rebuild(two.coordination, urls(two))
    go_on(two)


def test_either_of_two_that_differ_is_gone_on_with(two: Replicas) -> None:
    source, other = "far", "near"
    go_two_ways(two)
    for name in ("near", "far"):
        with pytest.raises(OldStoreError, match=UNKNOWN):
            two.back_up(name)
    rebuild(two.coordination, urls(two), source=source)
    assert (two.place_of(source).set_aside, two.place_of(other).set_aside) == (False, True)
    two.back_up(source)
    go_on(two)
    assert not two.place_of(other).set_aside


def test_what_a_replica_has_executed_stays_known_while_it_is_made_anew(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_back = copied(two)
    two.back_up("far")
    two.sync("near")
    two.lose("far")

    def die(*given: object, **more: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr("holdfast.replication.work.recovery.FileCopier", die)
        with pytest.raises(InterruptedError):
            two.recover("far")
    place = two.place_of("far")
    assert (place.recovering, place.index, place.entry) == (True, 1, two.place_of("near").entry)
    put_back()
    away(two, "near")
    two.change("far", is_lost=True, lost_reason="it is as it was")
    with pytest.raises(OldStoreError, match=UNKNOWN):
        trim(two.coordination, two.archive)


def test_no_sequential_read_is_made_beside_a_quorum_that_the_store_has_forgotten(three: Replicas) -> None:
    put_back = copied(three)
    away(three, "near")
    block = with_quorum(three, "far")
    acknowledged(three, "far", block)
    put_back()
    away(three, "near", back=True)
    away(three, "far", "off")
    why = "2 of the 3 replicas have to be readable, .* far, off cannot be read now"
    with pytest.raises(BusyError, match=f"a sequential read is not possible now: {why}"):
        open_to_read(three.place("near"), "sequential", address=three.coordination.url)
    with pytest.raises(BusyError, match=f"a backup with a quorum of 2 is not possible now: {why}"):
        with_quorum(three, "near")
    near = three.open("near")
    near.add(three.backup(near.store, "crm"), check=nothing, fence=None)  # a plain one names whom it did not ask
    assert {each.replica for each in near.not_asked} == {"far", "off"}
    for name in ("far", "off"):
        away(three, name, back=True)
        for each in ("near", name):
            with pytest.raises(OldStoreError, match=UNKNOWN):
                three.sync(each)
        with pytest.raises(OldStoreError, match=UNKNOWN):
            open_to_read(three.place("near"), "sequential", address=three.coordination.url)


def test_a_quorum_that_has_succeeded_is_not_failed_by_a_copy_from_before(three: Replicas) -> None:
    block = with_quorum(three, "near")
    put_back = copied(three)
    acknowledged(three, "near", block)
    put_back()
    overdue(three)
    for name in ("near", "far", "off"):
        with pytest.raises(OldStoreError, match=UNKNOWN):
            three.sync(name)
    assert [block in three.state(name).blocks for name in ("far", "near")] == [True, True]
    rebuild(three.coordination, urls(three, "near", "far", "off"))
    go_on(three, "near", "far", "off")
    assert all(block in three.state(name).blocks for name in ("near", "far", "off"))


def test_nor_is_it_where_too_few_replicas_can_be_read(three: Replicas) -> None:
    block = with_quorum(three, "near")
    put_back = copied(three)
    acknowledged(three, "near", block)
    put_back()
    overdue(three)
    away(three, "near", "far")
    with pytest.raises(MissingFilesError):
        three.sync("off")  # which would pass the entry if it had failed
    assert [each.block for each in three.coordination.run(lambda c: quorum.pending(c, three.archive))] == [block]
    with pytest.raises(OutcomeUnknownError, match="too few replicas can be read to take it back"):
        acknowledged(three, "off", block)
    away(three, "near", back=True)
    with pytest.raises(OldStoreError, match=UNKNOWN):
        acknowledged(three, "off", block)


def test_nobody_is_told_of_success_before_as_many_replicas_know_it(three: Replicas) -> None:
    block = with_quorum(three, "near")
    three.sync("off")
    away(three, "near", "far")
    waiting = QuorumWait(three.coordination, three.archive, block, "near")
    said = r"its quorum has succeeded, and 1 of 2 replicas have executed entry 2, which says so \(off\)"
    with pytest.raises(BusyError, match=said):
        waiting.decided(patience=0)
    overdue(three)
    with pytest.raises(OutcomeUnknownError, match=rf"{said}.* The backup counts, unless the coordination store is put"):
        waiting.decided(patience=0)
    away(three, "near", back=True)
    assert waiting.decided(patience=0).executed_by == ("near", "off")


def test_a_replica_that_was_added_since_is_known_by_those_before_it(
    tmp_path: Path, coordination: CoordinationStore
) -> None:
    given = Replicas.begun(tmp_path, coordination)
    put_back = copied(given)
    joined(given, "far")
    given.back_up("far")
    put_back()
    for away_too in (False, True):
        if away_too:
            away(given, "far")
        for work in (given.back_up, given.sync):
            with pytest.raises(OldStoreError, match=rf"near has executed entry 1 .*, {UNKNOWN}"):
                work("near")
    away(given, "far", back=True)
    rebuild(coordination, urls(given, "near"))  # which finds the other one by what commits say
    go_on(given)
    assert given.backups[-3] in given.state("near").blocks


def test_a_replica_that_was_removed_since_is_known_by_all(three: Replicas) -> None:
    put_back = copied(three)
    assert membership.remove(three.coordination, three.archive, "off") == ""
    assert three.place_of("off").members == {name: three.place(name).url for name in ("far", "near")}
    put_back()
    for name in ("off", "near"):
        with pytest.raises(OldStoreError, match=UNKNOWN):
            three.back_up(name)


def test_one_that_has_passed_a_failed_entry_does_not_vouch_for_its_success(three: Replicas) -> None:
    with_quorum(three, "far")
    put_back = copied(three)
    overdue(three)
    three.coordination.run(lambda c: log.fail_overdue(c, three.archive, by="far", unread=()))
    near = three.open("near")
    near.sync(check=nothing, fence=None, upto=1)  # killed before it came to what takes the backup back
    assert (three.place_of("near").index, three.place_of("near").passed) == (1, True)
    put_back()
    for name in ("off", "near"):
        with pytest.raises(
            OldStoreError, match=r"near has passed entry 1 \(.*\), whose failure the coordination store"
        ):
            three.sync(name)


def test_what_a_replica_had_before_it_was_made_anew_from_one_behind_stays_known(two: Replicas) -> None:
    put_back = copied(two)
    two.back_up("near")
    two.lose("near")
    two.recover("near")
    place = two.place_of("near")
    assert (place.index, place.reached) == (0, 1)
    assert two.backups[1] in two.state("near").aside
    put_back()
    for name in ("near", "far"):
        with pytest.raises(OldStoreError, match=rf"near has executed entry 1 \(.*\), {UNKNOWN}"):
            two.back_up(name)


def test_it_is_forgotten_once_the_replica_has_it_again(two: Replicas) -> None:
    two.back_up("near")
    two.lose("near")
    two.recover("near")
    assert two.sync("near").index == two.sync("far").index == 1
    assert (two.place_of("near").reached, two.place_of("near").reached_entry) == (0, "")
    assert two.backups[1] in two.state("near").blocks


def test_a_recovered_replica_names_the_entry_that_it_has_come_to(three: Replicas) -> None:
    put_back = copied(three)
    acknowledged(three, "near", with_quorum(three, "near"))
    three.lose("off")
    three.recover("off")
    assert (three.place_of("off").index, three.place_of("off").entry) == (2, three.place_of("near").entry)
    put_back()
    away(three, "near", "far")
    with pytest.raises(OldStoreError, match=rf"off has executed entry 2 \(.*\), {UNKNOWN}"):
        three.sync("off")
    away(three, "far", back=True)
    with pytest.raises(OldStoreError, match=UNKNOWN):
        three.sync("far")


def test_what_is_set_aside_is_no_witness_for_a_store_from_before_that(two: Replicas) -> None:
    put_back = copied(two)
    two.back_up("near")
    put_back()
    away(two, "near")
    two.back_up("far")
    put_first_back = copied(two)
    away(two, "near", back=True)
    rebuild(two.coordination, urls(two), source="near")
    assert two.place_of("far").set_aside
    put_first_back()
    away(two, "near")
    with pytest.raises(OldStoreError, match=r"follows the log of store|it is another store"):
        two.sync("far")
    away(two, "near", back=True)
    two.change("far", is_lost=True, lost_reason="it is as it was")
    with pytest.raises(OldStoreError, match="follows the log of store"):
        trim(two.coordination, two.archive)


def test_what_was_set_aside_is_not_gone_on_from_by_the_next_rebuilding(two: Replicas) -> None:
    put_back = copied(two)
    two.back_up("near")
    put_back()
    away(two, "near")
    two.back_up("far")
    two.back_up("far")
    put_first_back = copied(two)  # in which far is not lost
    away(two, "near", back=True)
    rebuild(two.coordination, urls(two), source="near")
    assert two.place_of("far").set_aside
    put_first_back()
    assert become(two, rebuild(two.coordination, urls(two))) == {"near": "", "far": "it was set aside"}
    assert (two.place_of("near").set_aside, two.place_of("far").set_aside) == (False, True)
    go_on(two)
    assert two.backups[1] in two.state("far").blocks
    assert set(two.backups[2:4]) <= two.state("far").aside.keys()


def test_where_all_others_are_gone_it_is_gone_on_from_once_somebody_says_so(two: Replicas) -> None:
    go_two_ways(two)
    rebuild(two.coordination, urls(two), source="near")
    shutil.rmtree(two.folder / "near")
    with pytest.raises(RefusedError, match="far: it was set aside"):
        rebuild(two.coordination, urls(two), without=("near",), force=True)
    rebuild(two.coordination, urls(two), source="far", without=("near",), force=True)
    two.back_up("far")
    assert two.backups[2] in two.state("far").blocks


def test_a_replica_that_was_made_anew_has_what_was_acknowledged_before_though_its_commits_do_not_name_it(
    three: Replicas,
) -> None:
    acknowledged(three, "near", with_quorum(three, "near"))
    three.sync("far")
    rebuild(three.coordination, urls(three, "near", "far", "off"), force=True)
    three.recover("off")  # from a commit that names no entry
    assert (three.place_of("off").index, three.place_of("off").entry) == (2, "")
    put_back = copied(three)
    three.back_up("off")
    put_back()
    away(three, "off")
    three.back_up("near")
    away(three, "off", back=True)
    rebuild(three.coordination, urls(three, "near", "far", "off"), source="off")
    go_on(three, "near", "far", "off")
    assert three.backups[1] in three.state("near").blocks
    assert three.backups[3] in three.state("near").aside


def test_what_was_set_aside_is_not_elected(two: Replicas) -> None:
    go_two_ways(two)
    rebuild(two.coordination, urls(two), source="near")
    two.lose("near", "far")
    with pytest.raises(RefusedError, match=r"far was set aside .* 'holdfast replica rebuild-store --from far'"):
        membership.elect(two.coordination, two.archive, "far")
    assert membership.elect(two.coordination, two.archive, "near") == 0
    go_on(two)
    assert two.backups[1] in two.state("far").blocks


def test_where_all_replicas_are_lost_none_is_removed_unless_that_is_said(two: Replicas) -> None:
    two.back_up("far")
    two.lose("near", "far")
    for name in ("near", "far"):
        with pytest.raises(RefusedError, match=f"all replicas are lost, {name} too, .* 'holdfast replica elect' one"):
            membership.remove(two.coordination, two.archive, name)
    for name in ("near", "far"):
        membership.remove(two.coordination, two.archive, name, force=True)
    rebuild(two.coordination, urls(two))  # which is needed: the store knows no replica
    go_on(two)
    assert two.backups[1] in two.state("near").blocks
