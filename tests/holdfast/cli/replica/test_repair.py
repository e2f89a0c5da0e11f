"""`holdfast replica repair`: it does what loses nothing, and says of all else what each way out keeps and loses."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from holdfast.replication.log import schema
from holdfast.replication.log.membership import join, leave
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.trimming import trim
from tests.support.jobs.command import Finished, RunCommand
from tests.support.replicas.given_up import append, full
from tests.support.replicas.hung import PATIENCE_S, hanging
from tests.support.replicas.rebuilt import away, bring_back, go_two_ways
from tests.support.replicas.replicated import Replicas, nothing, replica_rows

pytestmark = pytest.mark.usefixtures("log_address")

REPAIR = ("replica", "repair")


def _commands(done: Finished) -> list[str]:
    """Return the commands of the ways out that are left."""
    return [way["command"] or way["action"] for each in done.value["findings"] for way in each["ways"]]


def _all_are_equal(three: Replicas, holdfast: RunCommand, *names: str) -> None:
    rows = replica_rows(holdfast)
    assert {name: (row["entries_behind"], row["lost"]) for name, row in rows.items()} == dict.fromkeys(
        names, (0, False)
    )
    assert all(three.is_whole(name) for name in names)
    assert len({frozenset(three.state(name).blocks) for name in names}) == 1


def test_nothing_is_wrong_with_replicas_that_are_equal(holdfast: RunCommand, two: Replicas) -> None:
    done = holdfast(*REPAIR)
    assert (done.code, done.out, done.err) == (0, "nothing is wrong with the replicas of shop\n", "")
    assert holdfast(*REPAIR, "--json").value == {
        "archive": two.archive,
        "name": "shop",
        "steps": [],
        "findings": [],
        "dry_run": False,
    }


def test_one_that_is_behind_and_one_that_was_away_too_long_are_repaired_alone(
    holdfast: RunCommand, three: Replicas
) -> None:
    for _ in range(2):
        three.back_up("near")
    three.change("off", active_until=1.0)
    three.sync("far", upto=1)
    trim(three.coordination, three.archive, min_keep=1, max_keep=1)
    dry = holdfast(*REPAIR, "--dry-run")
    assert (dry.code, dry.err) == (1, "")
    assert dry.out == (
        "far: it is 1 entry behind\n"
        "  holdfast replica sync far\n"
        "    keeps all\n"
        "    loses nothing; so 'holdfast replica repair' does it\n"
        "off: it is lost: it was away, and needs entry 1, which was trimmed\n"
        "  holdfast replica recover off\n"
        "    keeps all that the others have; backups that only off has are kept aside at its place\n"
        "    loses nothing; so 'holdfast replica repair' does it\n"
    )
    assert replica_rows(holdfast)["off"]["lost"]
    done = holdfast(*REPAIR)
    assert done.code == 0, done.err
    said = [line for line in done.err.splitlines() if "Now: " in line]
    assert said == [
        "far: it is 1 entry behind. Now: holdfast replica sync far, which loses nothing",
        "off: it is lost: it was away, and needs entry 1, which was trimmed. Now: holdfast replica recover off, which "
        "loses nothing",
    ]
    assert done.out == "nothing is wrong with the replicas of shop\n"
    _all_are_equal(three, holdfast, "near", "far", "off")


def test_a_place_that_is_away_is_left_to_a_person_with_what_is_lost_without_it(
    holdfast: RunCommand, two: Replicas
) -> None:
    two.back_up("far")
    away(two, "far")
    done = holdfast(*REPAIR, "--json")
    assert done.code != 0
    (missing,) = [each for each in done.value["findings"] if each["about"] == "far"]
    assert f"{two.folder / 'far'} cannot be read: " in missing["problem"]
    mend, forget = missing["ways"]
    assert (mend["action"].startswith("mend its place"), mend["loses"]) == (True, None)
    assert (forget["command"], forget["alone"]) == ("holdfast replica forget far", False)
    assert "what only far has: far has executed entries that no other replica has yet" in forget["loses"]
    away(two, "far", back=True)
    assert holdfast(*REPAIR).code == 0
    _all_are_equal(two, holdfast, "near", "far")


def test_one_that_hangs_costs_one_limit_for_each_look(holdfast: RunCommand, two: Replicas) -> None:
    with hanging(two, "far"):
        began = time.monotonic()
        done = holdfast(*REPAIR, "--json")
        assert time.monotonic() - began < PATIENCE_S
    (finding,) = done.value["findings"]
    assert (done.code, "it has not answered within" in finding["problem"]) == (1, True)


def test_of_replicas_that_are_all_lost_each_is_shown_with_what_it_would_lose(
    holdfast: RunCommand, three: Replicas
) -> None:
    for _ in range(3):
        three.back_up("near")
    three.sync("far", upto=1)
    three.change("far", active_until=1.0)
    three.change("off", active_until=1.0)
    trim(three.coordination, three.archive, min_keep=0, max_keep=0)
    three.lose("near")
    away(three, "near")
    done = holdfast(*REPAIR, "--json", "--archive", "shop")
    assert done.code == 5
    assert _commands(done) == [
        "mend the place of near first: it may be the one with most",
        "holdfast replica elect far --lose-entries --archive shop",
        "holdfast replica elect off --lose-entries --archive shop",
    ]
    ((mend, far, off),) = [each["ways"] for each in done.value["findings"]]
    assert mend["loses"] is None
    assert (far["keeps"], far["loses"]) == (
        "what far has: entries up to 1",
        "2 entries of the log, with the backups they added; what near may have",
    )
    assert "what far has beyond entry 0, which is kept aside there" in off["loses"]
    away(three, "near", back=True)
    assert _commands(holdfast(*REPAIR, "--json"))[0] == "holdfast replica elect near"
    assert holdfast("replica", "elect", "near", "--yes").code == 0
    assert holdfast(*REPAIR).code == 0
    _all_are_equal(three, holdfast, "near", "far", "off")


def test_a_store_that_is_an_older_copy_is_rebuilt_alone_where_no_replica_has_anything_else(
    holdfast: RunCommand, two: Replicas
) -> None:
    bring_back(two, ahead="near", behind="far")
    dry = holdfast(*REPAIR, "--dry-run", "--json")
    (finding,) = dry.value["findings"]
    assert (dry.code, "brought back from an older copy" in finding["problem"]) == (4, True)
    assert [(way["command"], way["loses"]) for way in finding["ways"]] == [("holdfast replica rebuild-store", None)]
    done = holdfast(*REPAIR, "--json")
    assert done.code == 0, done.err
    assert [each["command"] for each in done.value["steps"]] == [
        "holdfast replica rebuild-store",
        "holdfast replica recover far",
    ]
    assert two.place_of("near").index == 3
    _all_are_equal(two, holdfast, "near", "far")


def test_of_two_lines_a_person_chooses_and_sees_what_each_loses(holdfast: RunCommand, two: Replicas) -> None:
    go_two_ways(two)
    store = two.place_of("far").store
    done = holdfast(*REPAIR, "--json")
    assert done.code == 4
    assert done.value["steps"] == []
    assert sorted(_commands(done)) == [
        "holdfast replica rebuild-store --from far",
        "holdfast replica rebuild-store --from near",
    ]
    for way in done.value["findings"][0]["ways"]:
        assert "has executed another entry 1 than" in way["loses"]
        assert "the recovery keeps them aside" in way["loses"]
    assert two.place_of("far").store == store
    assert holdfast("replica", "rebuild-store", "--from", "near").code == 0
    done = holdfast(*REPAIR)
    assert done.code == 0, done.err
    assert "1 blocks that only it had are kept aside: 'holdfast replica aside list far' shows them" in done.err
    (aside,) = holdfast("replica", "aside", "list", "far", "--json").value["aside"]
    assert aside["block"] == two.backups[-1]
    _all_are_equal(two, holdfast, "near", "far")


def test_a_replica_that_cannot_be_read_keeps_a_store_from_being_rebuilt_alone(
    holdfast: RunCommand, three: Replicas
) -> None:
    bring_back(three, ahead="near", behind="far")
    away(three, "off")
    done = holdfast(*REPAIR, "--json")
    assert (done.code, done.value["steps"]) == (4, [])
    mend, without = done.value["findings"][0]["ways"]
    assert mend["action"].startswith("mend the place of off (")
    assert without["command"] == "holdfast replica rebuild-store --without off"
    assert "what off has more (" in without["loses"]


def test_a_store_that_is_gone_is_not_made_anew_alone_since_its_address_may_be_wrong(
    holdfast: RunCommand, two: Replicas, log_address: str
) -> None:
    file = Path(log_address.removeprefix("sqlite:///"))
    file.unlink()
    Path("archives.yaml").write_text(
        f"archives:\n  shop:\n    store: {log_address}\n    replicas:\n"
        f"      near: {two.folder / 'near'}\n      far: {two.folder / 'far'}\n"
    )
    done = holdfast(*REPAIR, "--archive", "shop", "--json")
    assert (done.code, done.value["steps"]) == (4, [])
    address, rebuild = _commands(done)
    assert address.startswith("is the address right")
    assert rebuild == "holdfast replica rebuild-store --archive shop"
    assert not file.exists()
    assert holdfast(*rebuild.split()[1:]).code == 0
    assert holdfast(*REPAIR, "--archive", "shop").code == 0
    _all_are_equal(two, holdfast, "near", "far")


def test_an_entry_that_nobody_has_is_found_by_the_sync_and_left_to_a_person(
    holdfast: RunCommand, three: Replicas
) -> None:
    append(three, "near", full("0/A00"))
    three.coordination.run(lambda c: c.execute(schema.replicas.update().values(active_until=0.0)))
    away(three, "near")
    done = holdfast(*REPAIR, "--json")
    assert done.code == 1, done.value
    (entry,) = [each for each in done.value["findings"] if each["about"] == "shop"]
    assert entry["problem"] == "entry 1 stops replicas: no replica has all of its files"
    assert "entry 1 waits for near" in entry["ways"][0]["action"]
    assert holdfast("replica", "remove", "near", "--force").code == 0
    done = holdfast(*REPAIR, "--json")
    (entry,) = [each for each in done.value["findings"] if each["about"] == "shop"]
    find, give_up = entry["ways"]
    assert find["action"].startswith("find these files, and put them back at a replica: data/shop_db/")
    assert (give_up["command"], give_up["alone"]) == ("holdfast replica give-up 1", False)
    assert give_up["loses"] == "the backups of shop_db in the entries 1"
    assert holdfast("replica", "give-up", "1", "--yes").code == 0
    assert holdfast(*REPAIR).code == 0
    _all_are_equal(three, holdfast, "far", "off")


def test_an_addition_and_a_removal_that_were_stopped_are_brought_to_their_end(
    holdfast: RunCommand, three: Replicas
) -> None:
    new = three.place("new").url
    three.coordination.run(lambda c: join(c, three.archive, name="new", url=new))
    three.coordination.run(lambda c: leave(c, three.archive, "off", force=False))
    done = holdfast(*REPAIR, "--json")
    assert done.code == 0, done.err
    assert {each["command"] for each in done.value["steps"]} >= {
        "holdfast replica remove off",
        "holdfast replica recover new",
    }
    _all_are_equal(three, holdfast, "near", "far", "new")


def test_a_recovery_that_is_under_way_is_waited_for(holdfast: RunCommand, two: Replicas) -> None:
    two.lose("far")
    two.change("far", recovers_from="near", active_until=time.time() + 500)
    done = holdfast(*REPAIR, "--json")
    assert (done.code, done.value["steps"]) == (3, [])
    (finding,) = done.value["findings"]
    assert finding["problem"] == "it is being recovered from near"
    assert finding["ways"][0]["action"].startswith("let it end; if it has died, run this again in ")


def test_an_older_copy_of_a_replica_is_marked_by_its_sync_and_recovered(holdfast: RunCommand, two: Replicas) -> None:
    shutil.copytree(two.folder / "far", two.folder / "copy")
    two.back_up("near")
    two.sync("far")
    shutil.rmtree(two.folder / "far")
    (two.folder / "copy").rename(two.folder / "far")
    done = holdfast(*REPAIR, "--json")
    assert done.code == 0, done.err
    assert [each["command"] for each in done.value["steps"]] == [
        "holdfast replica sync far",
        "holdfast replica recover far",
    ]
    _all_are_equal(two, holdfast, "near", "far")


def test_a_quorum_beyond_its_deadline_is_decided_by_the_syncs(holdfast: RunCommand, two: Replicas) -> None:
    archive = two.open("near")
    archive.quorum_request = QuorumRequest(2)
    archive.add(two.backup(archive.store), check=nothing, fence=None)
    two.coordination.run(lambda c: c.execute(schema.quorums.update().values(deadline=1.0)))
    done = holdfast(*REPAIR)
    assert done.code == 0, done.out
    _all_are_equal(two, holdfast, "near", "far")


def test_an_archive_that_the_store_does_not_know_beside_others_is_a_wrong_name(
    holdfast: RunCommand, two: Replicas
) -> None:
    done = holdfast(*REPAIR, "--archive", "other")
    assert (done.code, "say which by --archive" in done.err) == (2, True)
