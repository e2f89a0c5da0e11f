"""`holdfast replica add`, `elect`, `remove` and `forget`: what they do, and what they refuse."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.replication.log import schema
from holdfast.replication.log.store import CoordinationStore
from holdfast.storage import ObjectStore, open_store
from locking import RWLock
from tests.support.jobs.command import RunCommand
from tests.support.replicas.replicated import Replicas, replica_rows

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("log_address")]


def test_an_archive_becomes_the_first_replica_and_an_empty_place_the_second(
    holdfast: RunCommand, filled: ObjectStore, tmp_path: Path
) -> None:
    first = holdfast("replica", "add", "near", filled.url, "--json")
    assert (first.code, first.value["first"], first.value["from"]) == (0, True, None)
    assert first.value["archive"] == Archive.open(filled).identity.id
    second = holdfast("replica", "add", "far", str(tmp_path / "far"), "--json")
    assert second.code == 0, second.err
    assert {key: second.value[key] for key in ("first", "from", "files", "kept", "index", "aside")} == {
        "first": False, "from": "near", "files": 2, "kept": 0, "index": 1, "aside": [],
    }  # fmt: skip
    assert "recovering far" in second.err
    far = Archive.open(open_store(str(tmp_path / "far")))
    assert far.identity.id == first.value["archive"]
    assert far.state.blocks.keys() == Archive.open(filled).state.blocks.keys()


def test_an_url_is_kept_in_its_one_form(
    holdfast: RunCommand, filled: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert holdfast("replica", "add", "near", "archive/").code == 0
    assert holdfast("replica", "add", "far", f"file://{tmp_path}/far").code == 0
    assert {name: row["url"] for name, row in replica_rows(holdfast).items()} == {
        "near": filled.url,
        "far": str(tmp_path / "far"),
    }


def test_a_copy_of_the_archive_becomes_a_replica_and_keeps_its_files(
    holdfast: RunCommand, filled: ObjectStore, tmp_path: Path
) -> None:
    assert holdfast("copy", filled.url, str(tmp_path / "far")).code == 0
    assert holdfast("replica", "add", "near", filled.url).code == 0
    done = holdfast("replica", "add", "far", str(tmp_path / "far"), "--json")
    assert (done.code, done.value["files"], done.value["kept"]) == (0, 0, 2)


def test_adding_is_once_enough_and_goes_on_where_it_was_stopped(holdfast: RunCommand, two: Replicas) -> None:
    far = str(two.folder / "far")
    again = holdfast("replica", "add", "far", far)
    assert (again.code, f"{far} is replica far already" in again.err) == (0, True)
    two.lose("far")
    assert holdfast("replica", "add", "far", far).code == 0
    assert replica_rows(holdfast)["far"]["lost"] is False
    first = holdfast("replica", "add", "near", str(two.folder / "near"))
    assert (first.code, "is replica near already" in first.err) == (0, True)


@pytest.mark.parametrize(
    ("name", "place", "said"),
    [
        ("far", "other", "choose another name, or remove that one first"),
        ("off", "far", "is replica far already"),
        ("off", "used", "is not empty"),
        ("a/b", "other", "cannot name a replica"),
    ],
)
def test_a_name_or_a_place_that_is_taken_is_wrong_usage(
    holdfast: RunCommand, two: Replicas, name: str, place: str, said: str
) -> None:
    (two.folder / "used").mkdir()
    (two.folder / "used" / "letter.txt").write_text("dear")
    done = holdfast("replica", "add", name, str(two.folder / place))
    assert (done.code, said in done.err) == (2, True), done.err
    assert sorted(replica_rows(holdfast)) == ["far", "near"]


def test_a_replica_is_made_anew_where_a_job_that_was_at_work_there_wrote_on(
    holdfast: RunCommand, two: Replicas
) -> None:
    place = two.folder / "far"
    shutil.rmtree(place)
    (place / "runs" / "restore.1").mkdir(parents=True)
    (place / "runs" / "restore.1" / "000000.json").write_text("{}")
    assert holdfast("replica", "remove", "far", "--force").code == 0
    done = holdfast("replica", "add", "far", str(place))
    assert done.code == 0, done.err
    assert two.is_whole("far")


def test_a_place_of_another_archive_is_no_replica_of_this_one(
    holdfast: RunCommand, two: Replicas, store: ObjectStore
) -> None:
    done = holdfast("replica", "add", "off", store.url, "--archive", two.archive)
    assert (done.code, "holds another archive (shop, " in done.err) == (2, True)
    assert holdfast("replica", "add", "off", store.url, "--archive", "nobody").code == 2
    own = Archive.open(store).identity.id
    assert holdfast("replica", "add", "first", store.url, "--archive", own).code == 0  # a log of its own
    done = holdfast("replica", "add", "off", store.url, "--archive", two.archive)
    assert (done.code, "is not the place of replica off" in done.err) == (2, True)
    assert len(holdfast("replica", "status", "--json").value["archives"]) == 2
    assert len(holdfast("replica", "status", "--archive", two.archive, "--json").value["archives"]) == 1


def test_an_empty_place_cannot_be_the_first_replica(holdfast: RunCommand, tmp_path: Path) -> None:
    done = holdfast("replica", "add", "near", str(tmp_path / "near"))
    assert (done.code, "the first replica is an archive that exists" in done.err) == (2, True)


def test_an_archive_of_format_1_cannot_have_replicas(holdfast: RunCommand, tmp_path: Path) -> None:
    assert holdfast("init", str(tmp_path / "old"), "--format", "1").code == 0
    done = holdfast("replica", "add", "near", str(tmp_path / "old"))
    assert (done.code, f"holdfast migrate {tmp_path / 'old'} --to 2" in done.err) == (2, True)


def test_who_adds_waits_for_nobody_unless_told_to(holdfast: RunCommand, filled: ObjectStore) -> None:
    with RWLock(filled, "format").read(purpose="a backup"):
        assert holdfast("replica", "add", "near", filled.url).code == 3


def test_who_is_elected_goes_on_and_the_others_are_recovered_from_it(holdfast: RunCommand, two: Replicas) -> None:
    two.back_up("near")
    two.lose("near", "far")
    assert holdfast("replica", "recover", "--lost").code == 5
    shown = holdfast("replica", "elect", "--json").value
    assert [(each["name"], each["index"], each["problem"]) for each in shown["candidates"]] == [
        ("far", 0, None), ("near", 1, None),
    ]  # fmt: skip
    unasked = holdfast("replica", "elect", "near")
    assert (unasked.code, "nothing was done. Add --yes" in unasked.err) == (2, True)
    done = holdfast("replica", "elect", "near", "--yes", "--json")
    assert done.value == {"archive": two.archive, "name": "shop", "elected": "near", "given_up": 0}
    assert holdfast("replica", "recover", "--lost").code == 0
    assert two.state("far").blocks.keys() == two.state("near").blocks.keys()
    done = holdfast("replica", "elect", "far", "--yes")
    assert (done.code, "not all replicas are lost" in done.err) == (5, True)


def test_entries_that_nobody_has_are_given_up_only_where_that_is_said(holdfast: RunCommand, two: Replicas) -> None:
    for _ in range(2):
        two.back_up("near")
    two.change("far", active_until=1.0)
    assert holdfast("replica", "trim", "--min-keep", "0", "--max-keep", "0").code == 0
    shutil.rmtree(two.folder / "near")
    two.lose("near")
    shown = holdfast("replica", "elect")
    assert "shop: entries up to 2, of which the log has none any more" in shown.out
    assert "so no archive" in shown.out
    done = holdfast("replica", "elect", "far", "--yes")
    assert (done.code, "2 entries would be given up" in done.err) == (5, True)
    two.coordination.run(lambda c: c.execute(schema.archives.update().values(quorum_index=1)))
    done = holdfast("replica", "elect", "far", "--lose-entries", "--yes")
    assert (
        done.code,
        "Entry 1, which acknowledges the quorum of a backup, is one of them" in " ".join(done.err.split()),
    ) == (5, True)
    words = ("--lose-entries", "--lose-acknowledged")
    assert holdfast("replica", "elect", "far", *words, "--yes", "--json").value["given_up"] == 2
    assert replica_rows(holdfast)["far"]["lost"] is False
    assert two.back_up("far") == 3


def test_what_no_other_replica_has_is_forgotten_only_by_force(holdfast: RunCommand, two: Replicas) -> None:
    two.back_up("near")
    done = holdfast("replica", "remove", "near")
    assert (done.code, "let one of them be synced first, or say --force" in done.err) == (5, True)
    done = holdfast("replica", "remove", "far", "--json")
    assert done.value == {
        "archive": two.archive, "name": "shop", "removed": "far", "url": str(two.folder / "far"),
        "not_recorded": None,
    }  # fmt: skip
    assert two.place_of("far").members == {"near": str(two.folder / "near")}
    assert sorted(replica_rows(holdfast)) == ["near"]
    assert Archive.open(two.place("far")).state.blocks
    assert holdfast("replica", "remove", "near").code == 5
    assert holdfast("replica", "remove", "near", "--force").code == 0


def test_one_that_is_gone_for_good_is_forgotten_once_somebody_says_so(holdfast: RunCommand, two: Replicas) -> None:
    answers = holdfast("replica", "forget", "far", "--yes", "--json")
    assert (
        answers.code,
        "far answers: 'holdfast replica remove far'" in answers.value["error"].replace(f" at {two.folder}/far", ""),
    ) == (5, True)
    two.back_up("far")
    (two.folder / "far").rename(two.folder / "away")
    asked = holdfast("replica", "forget", "far")
    assert (asked.code, "what only it has is lost" in asked.err) == (2, True)
    assert "nothing was done. Add --yes" in asked.err
    assert sorted(replica_rows(holdfast)) == ["far", "near"]
    done = holdfast("replica", "forget", "far", "--yes", "--json")
    assert (done.code, done.value["removed"]) == (0, "far")
    assert "should the coordination store be put back" in done.value["not_recorded"]
    assert sorted(replica_rows(holdfast)) == ["near"]


def test_another_archive_in_its_place_is_no_answer(holdfast: RunCommand, two: Replicas) -> None:
    shutil.rmtree(two.folder / "far")
    Archive.create(two.place("far"), name="another")
    assert holdfast("replica", "forget", "far", "--yes").code == 0
    assert Archive.open(two.place("far")).identity.name == "another"


def test_a_replica_that_was_removed_can_come_back(holdfast: RunCommand, two: Replicas) -> None:
    assert holdfast("replica", "remove", "far").code == 0
    two.back_up("near")
    done = holdfast("replica", "add", "far", str(two.folder / "far"), "--json")
    assert (done.code, done.value["files"], done.value["kept"]) == (0, 2, 2)
    assert two.is_whole("far")


def test_a_place_that_is_beyond_an_old_store_is_not_added(
    holdfast: RunCommand, tmp_path: Path, coordination: CoordinationStore
) -> None:
    given = Replicas.begun(tmp_path, coordination)
    given.back_up("near")
    path = Path(coordination.url.removeprefix("sqlite:///"))
    shutil.copy(path, copy := path.with_suffix(".copy"))
    given.add("far")
    given.back_up("far")
    shutil.move(copy, path)
    refused = holdfast("replica", "add", "far", given.place("far").url)
    assert (refused.code, "far has executed entry 2" in refused.err) == (4, True)
    assert "the-coordination-store-is-gone.md" in refused.err
    assert replica_rows(holdfast).keys() == {"near"}
    assert given.backups[-1] in given.state("far").blocks
