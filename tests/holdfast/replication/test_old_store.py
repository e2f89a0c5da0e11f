"""A coordination store that is brought back from an old copy loses no backup in silence.

In each case a copy of the store is put back that does not know what replicas have executed since.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.common.errors import BusyError, OutcomeUnknownError, RefusedError, UsageError
from holdfast.replication.log import log, quorum, schema
from holdfast.replication.log.errors import MissingFilesError, OldStoreError
from holdfast.replication.log.settings import REPLICAS_VARIABLE, QuorumRequest, StoreAddress, show_replicas
from holdfast.replication.log.store import CoordinationStore, opened
from holdfast.replication.log.trimming import trim
from holdfast.replication.work import membership
from holdfast.replication.work.consistent_read import open_to_read
from holdfast.replication.work.quorum_wait import QuorumWait
from holdfast.replication.work.replica import ReplicatedArchive
from holdfast.storage import ObjectStore, open_store
from tests.support.jobs.command_here import run_here
from tests.support.replicas.hung import HUNG, PATIENCE_S, hanging
from tests.support.replicas.rebuilt import away, become, copied, go_on, joined, rebuild, urls
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


def test_a_replica_that_was_left_out_and_has_nothing_else_is_recovered(two: Replicas) -> None:
    two.back_up("near")
    two.sync("far")
    away(two, "far")
    two.back_up("near")
    rebuild(two.coordination, urls(two), without=("far",), force=True)
    two.back_up("near")
    away(two, "far", back=True)
    go_on(two)


def test_a_store_from_before_a_rebuilding_is_refused(two: Replicas) -> None:
    two.back_up("near")
    two.sync("far")
    put_back = copied(two)
    rebuild(two.coordination, urls(two), force=True)
    put_back()
    with pytest.raises(OldStoreError, match="it is another store, or one that was made anew"):
        two.back_up("near")
    rebuild(two.coordination, urls(two))
    go_on(two)


@pytest.mark.parametrize("source", ["near", "far"])
def test_either_of_two_that_differ_is_gone_on_with(two: Replicas, source: str) -> None:
    put_back = copied(two)
    two.back_up("near")
    put_back()
    away(two, "near")
    two.back_up("far")
    away(two, "near", back=True)
    for name in ("near", "far"):
        with pytest.raises(OldStoreError, match=UNKNOWN):
            two.back_up(name)
    rebuild(two.coordination, urls(two), source=source)
    other = "near" if source == "far" else "far"
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

    def die(*given: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr("holdfast.replication.work.recovery.fetch", die)
        patch.setattr("holdfast.replication.work.recovery.missing_files", die)
        with pytest.raises(InterruptedError):
            two.recover("far")
    place = two.place_of("far")
    assert (place.recovering, place.index, place.entry) == (True, 1, two.place_of("near").entry)
    put_back()
    away(two, "near")
    two.change("far", is_lost=True, lost_reason="it is as it was")
    with pytest.raises(OldStoreError, match=UNKNOWN):
        trim(two.coordination, two.archive)


def with_quorum(three: Replicas, name: str, size: int = 2) -> str:
    """Make a backup through a replica that needs a quorum; return its block."""
    archive = three.open(name)
    archive.wish = QuorumRequest(size)
    return archive.add(three.backup(archive.store), check=nothing, fence=None).add[0].id


def acknowledged(three: Replicas, name: str, block: str) -> None:
    """Wait as the command does until a backup is acknowledged."""
    waiting = QuorumWait(three.coordination, three.archive, block, name)
    waiting.check_success(waiting.decided())


def overdue(three: Replicas) -> None:
    three.coordination.run(lambda c: c.execute(schema.quorums.update().values(deadline=1.0)))


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
    assert waiting.decided(patience=0).told == ("near", "off")


def test_a_success_is_known_to_the_log_alone(three: Replicas) -> None:
    block = with_quorum(three, "near")
    acknowledged(three, "near", block)
    (entry,) = three.coordination.run(lambda c: log.entries(c, three.archive, 2))
    assert (entry.change.kind, entry.change.acknowledges) == (log.ACKNOWLEDGED, 1)
    assert three.state("near").log == three.place_of("near")
    three.sync("off")
    assert [three.place_of(name).acknowledged for name in ("near", "far", "off")] == [2, 2, 2]


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


def test_an_acknowledged_backup_is_given_up_only_where_that_is_said(three: Replicas) -> None:
    put_back = copied(three)
    away(three, "near")
    acknowledged(three, "far", with_quorum(three, "far"))
    put_back()
    away(three, "near", back=True)
    away(three, "far", "off")
    for _ in range(3):
        three.back_up("near")
    away(three, "far", "off", back=True)
    places = urls(three, "near", "far", "off")
    with pytest.raises(RefusedError, match="far has acknowledged the quorum of a backup by entry 2; off has executed"):
        rebuild(three.coordination, places)
    said = "far has executed entry 2, by which the quorum of a backup was acknowledged, and near has not"
    with pytest.raises(RefusedError, match=f"{said}: --lose-acknowledged gives that backup up"):
        rebuild(three.coordination, places, source="near")
    with pytest.raises(RefusedError, match=said):
        rebuild(three.coordination, places, source="near", without=("far", "off"))
    rebuild(three.coordination, places, source="far")
    go_on(three, "near", "far", "off")
    assert three.backups[1] in three.state("near").blocks


def test_it_is_given_up_where_that_is_said(three: Replicas) -> None:
    put_back = copied(three)
    acknowledged(three, "far", with_quorum(three, "far"))
    put_back()
    places = urls(three, "near", "far", "off")
    rebuild(three.coordination, places, source="off", lose_acknowledged=True)
    go_on(three, "near", "far", "off")
    assert three.backups[1] in three.state("far").aside


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


def forgotten(given: Replicas) -> dict[str, str]:
    """Put the store and `near` back from copies that do not know `far`, which only a configuration names then."""
    put_back = copied(given)
    shutil.copytree(given.folder / "near", given.folder / "near-copy")
    joined(given, "far")
    given.back_up("far")
    put_back()
    shutil.rmtree(given.folder / "near")
    (given.folder / "near-copy").rename(given.folder / "near")
    return urls(given)


def lost_and_recovered(given: Replicas) -> None:
    given.lose("near")
    given.recover("near")


ASKING: dict[str, Callable[[Replicas, StoreAddress], object]] = {
    "backup": lambda given, _: given.back_up("near"),
    "sync": lambda given, _: given.sync("near"),
    "recovery": lambda given, _: lost_and_recovered(given),
    "trim": lambda given, _: trim(given.coordination, given.archive),
    "add": lambda given, _: joined(given, "off"),
    "sequential read": lambda given, address: open_to_read(given.place("near"), "sequential", address=address),
}


@pytest.mark.parametrize("work", ASKING)
def test_a_replica_that_only_a_configuration_names_is_asked(
    tmp_path: Path, coordination: CoordinationStore, work: str
) -> None:
    given = Replicas.begun(tmp_path, coordination)
    named = forgotten(given)
    coordination.named = named
    with pytest.raises(OldStoreError, match=r"far follows the log|far has executed entry 2 .*, " + UNKNOWN):
        ASKING[work](given, StoreAddress(coordination.url, named))
    rebuild(coordination, named)
    go_on(given)
    lost_and_recovered(given)
    ASKING[work](given, StoreAddress(coordination.url, named))
    assert given.backups[1] in given.state("near").blocks


def test_a_command_asks_what_archives_yaml_names_whatever_it_calls_the_archive(
    tmp_path: Path, coordination: CoordinationStore
) -> None:
    given = Replicas.begun(tmp_path, coordination)
    named = forgotten(given)
    config = tmp_path / "archives.yaml"
    config.write_text(
        f"archives: {{shop: {{replicas: {{near: {named['near']}, far: {named['far']}}}, store: '{coordination.url}'}}}}"
    )
    for command in (
        ("replica", "sync", "near"),
        ("replica", "trim", "--archive", "shop"),
        ("hold", "add", "shop", "--at", "latest", "--reason", "audit"),
        ("hold", "add", named["near"], "--at", "latest", "--reason", "audit"),
        ("points", "shop", "--consistency", "sequential"),
    ):
        done = run_here(*command, more={"HOLDFAST_ARCHIVES": str(config)})
        assert (done.code, UNKNOWN in done.err) == (4, True), (command, done)
    done = run_here("replica", "rebuild-store", more={"HOLDFAST_ARCHIVES": str(config)})
    assert (done.code, "shop goes on from far" in done.out) == (0, True), done
    assert run_here("replica", "sync", "far", more={"HOLDFAST_ARCHIVES": str(config)}).code == 0


def test_what_is_named_and_is_no_replica_contradicts_nothing_and_who_cannot_be_asked_is_named(two: Replicas) -> None:
    other = Archive.create(open_store(str(two.folder / "other")), name="other")
    for name in ("broken", "far-again", "copy"):
        shutil.copytree(two.folder / "far", two.folder / name)
    (two.folder / "broken" / "archive.json").write_text("{")
    opened: Counter[str] = Counter()

    def places(url: str) -> ObjectStore:
        opened[url] += 1
        return open_store(url)

    far = two.place("far").url
    two.coordination.named = {
        **urls(two),
        "other": other.store.url,
        "empty": str(two.folder / "empty"),
        "broken": str(two.folder / "broken"),
        "secret": "s3://key:swordfish@bucket/shop",
        "again": f"{far}/",
        "copy": str(two.folder / "copy"),
        "copy-again": f"{two.folder / 'copy'}/",
    }
    near = ReplicatedArchive.begin(two.place("near"), two.coordination, places)
    assert sorted(each.replica for each in near.not_asked) == ["broken", "secret"]
    assert "swordfish" not in str([each.words for each in near.not_asked])
    assert opened[far] == 1
    commit = near.add(two.backup(near.store), check=nothing, fence=None)
    assert commit.log is not None
    assert not commit.log.members
    two.sync("far")
    two.coordination.named = {}
    go_on(two)
    for path in (two.folder / "near").rglob("*.json"):
        assert "swordfish" not in path.read_text()


def test_a_place_that_hangs_and_is_only_named_is_waited_for_once(two: Replicas) -> None:
    with hanging(two, "nobody"):
        two.coordination.named = {**urls(two), "off": HUNG}
        began = time.monotonic()
        for _ in range(5):
            archive = two.open("near")
            assert [each.replica for each in archive.not_asked] == ["off"]
        assert time.monotonic() - began < PATIENCE_S


def test_another_replica_that_contradicts_the_store_keeps_one_from_being_recovered(three: Replicas) -> None:
    put_back = copied(three)
    three.back_up("far")
    put_back()
    three.lose("off")
    with pytest.raises(OldStoreError, match=rf"far has executed entry 1 \(.*\), {UNKNOWN}"):
        three.recover("off")
    rebuild(three.coordination, urls(three, "near", "far", "off"))
    go_on(three, "near", "far", "off")


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
    put_back = copied(two)
    two.back_up("near")
    put_back()
    away(two, "near")
    two.back_up("far")
    away(two, "near", back=True)
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
    put_back = copied(two)
    two.back_up("near")
    put_back()
    away(two, "near")
    two.back_up("far")
    away(two, "near", back=True)
    rebuild(two.coordination, urls(two), source="near")
    two.lose("near", "far")
    found = membership.candidates(two.coordination, two.archive)
    assert [(each.name, each.index, each.problem) for each in found] == [
        ("far", 1, "it was set aside"),
        ("near", 1, ""),
    ]
    with pytest.raises(RefusedError, match=r"far was set aside .* 'holdfast replica rebuild-store --from far'"):
        membership.elect(two.coordination, two.archive, "far")
    assert membership.elect(two.coordination, two.archive, "near") == 0
    go_on(two)
    assert two.backups[1] in two.state("far").blocks


def test_what_the_environment_names_must_be_urls_by_name(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    for said in ("[]", "near", '{"near": 1}'):
        monkeypatch.setenv(REPLICAS_VARIABLE, said)
        with pytest.raises(UsageError, match="HOLDFAST_REPLICAS is to be a JSON object"), opened(two.coordination.url):
            pass
    monkeypatch.setenv(REPLICAS_VARIABLE, show_replicas(urls(two)))
    with opened(two.coordination.url) as coordination:
        assert coordination.named == urls(two)
    with opened(StoreAddress(two.coordination.url, {"off": "elsewhere"})) as coordination:
        assert coordination.named == {"off": "elsewhere"}


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
