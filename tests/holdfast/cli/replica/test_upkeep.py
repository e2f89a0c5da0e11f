"""`holdfast replica sync`, `trim` and `recover`: what they do, and how they fail."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.operations.archive_context import ArchiveContext
from holdfast.operations.requests.base import Request
from holdfast.replication.log.store import ENVIRONMENT
from tests.support.jobs.command import RunCommand
from tests.support.replicas.hung import HUNG, PATIENCE_S, hanging
from tests.support.replicas.replicated import Replicas, remove, replica_rows

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("log_address")]


def test_a_replica_is_brought_to_the_head_of_the_log(holdfast: RunCommand, two: Replicas) -> None:
    two.back_up("near")
    done = holdfast("replica", "sync", "far", "--json")
    assert done.code == 0, done.err
    (value,) = done.value["replicas"]
    assert value.pop("bytes") > 0
    assert value == {"replica": "far", "index": 1, "entries": 1, "files": 2, "given_up": [], "not_asked": []}
    assert two.is_whole("far")
    assert holdfast("replica", "sync", "far").out == "far: at entry 1, nothing to do\n"
    two.back_up("far")
    assert holdfast("replica", "sync", "--all").out.startswith("far: at entry 2, nothing to do\nnear: at entry 2; 1 ")


def test_a_sync_of_all_goes_on_after_a_failure_and_ends_with_its_code(holdfast: RunCommand, three: Replicas) -> None:
    three.back_up("near")
    shutil.rmtree(three.folder / "far")
    done = holdfast("replica", "sync", "--all", "--json")
    assert done.code == 4
    far, near, off = done.value["replicas"]
    assert far["exit_code"] == 4
    assert "there is no archive at" in far["error"]
    assert (near["entries"], off["entries"]) == (0, 1)
    assert "holdfast: far: there is no archive at" in done.err
    assert not (three.folder / "far").exists()


def test_a_sync_of_all_does_not_wait_for_one_that_hangs(
    holdfast: RunCommand, three: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    three.back_up("near")
    with hanging(three, "off"):
        began = time.monotonic()
        done = holdfast("replica", "sync", "--all", "--json")
        assert time.monotonic() - began < PATIENCE_S
    far, near, off = done.value["replicas"]
    assert (done.code, far["index"], near["index"], off["exit_code"]) == (1, 1, 1, 1)
    assert [each["replica"] for each in far["not_asked"]] == ["off"]
    assert f"replica off ({HUNG}) does not answer: it has not answered within" in off["error"]
    assert f"replica off ({HUNG}) could not be asked: it has not answered for" in caplog.text
    shown = holdfast("replica", "status", "--no-look").out
    assert "it has not answered for" in shown
    assert "and is asked again in" in shown
    assert replica_rows(holdfast)["off"]["asked_again_s"]


def test_a_sync_of_all_leaves_out_what_is_lost(holdfast: RunCommand, two: Replicas) -> None:
    two.lose("far")
    done = holdfast("replica", "sync", "--all", "--json")
    assert (done.code, [value["replica"] for value in done.value["replicas"]]) == (0, ["near"])
    assert "not synced: replica far is lost (it was away)" in done.err
    assert holdfast("replica", "sync", "far").code == 5


@pytest.mark.parametrize("word", ["sync", "recover"])
def test_one_replica_or_all_of_them_is_to_be_said(holdfast: RunCommand, two: Replicas, word: str) -> None:
    every = {"sync": "--all", "recover": "--lost"}[word]
    assert holdfast("replica", word).code == 2
    done = holdfast("replica", word, "far", every)
    assert (done.code, f"say either the name of a replica or {every}" in done.err) == (2, True)
    done = holdfast("replica", word, "nobody")
    assert (done.code, "there is no replica nobody of this archive; it has: far, near" in done.err) == (2, True)


@pytest.fixture
def jobs(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the next jobs are to say; where there is nothing, a job syncs the replica that it was asked for."""
    to_say: list[dict[str, Any]] = []

    def run_job(place: ArchiveContext, request: Request, **more: Any) -> dict[str, Any]:
        assert (request.operation, request.to_arguments()) == ("sync", [])
        assert place.coordination.url == two.coordination.url
        return to_say.pop(0) if to_say else two.sync(Path(place.url).name).describe()

    monkeypatch.setattr("holdfast.cli.replica.upkeep.run_job", run_job)
    return to_say


@pytest.mark.usefixtures("jobs")
def test_copies_are_spread_over_spark_where_that_is_wanted(
    holdfast: RunCommand, two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.back_up("near")
    monkeypatch.delenv(ENVIRONMENT)
    done = holdfast("replica", "sync", "far", "--spark", "--json", "--store", two.coordination.url)
    assert done.code == 0, done.err
    (value,) = done.value["replicas"]
    assert (value["replica"], value["entries"], value["files"], value["given_up"]) == ("far", 1, 2, [])
    assert ENVIRONMENT not in os.environ  # where other threads read it
    done = holdfast("replica", "sync", "--all", "--spark", "--store", two.coordination.url)
    assert done.out == "far: at entry 1, nothing to do\nnear: at entry 1, nothing to do\n"


def test_what_a_job_finds_at_no_place_is_given_up_in_time(
    holdfast: RunCommand, two: Replicas, jobs: list[dict[str, Any]]
) -> None:
    two.back_up("near")
    shutil.rmtree(two.folder / "near")
    two.coordination.run(lambda c: remove(c, two.archive, "near", force=True))
    found = {"missing": {"entry": 1, "why": "no replica could give data/x"}}
    jobs += [found, found, found]
    done = holdfast("replica", "sync", "far", "--spark", "--gap-after", "never")
    assert (done.code, "holdfast: no replica could give data/x\n" in done.err) == (4, True)
    done = holdfast("replica", "sync", "far", "--spark")
    assert (done.code, "data/x. All replicas were asked: it is given up by itself by a sync in" in done.err) == (
        4,
        True,
    )
    done = holdfast("replica", "sync", "far", "--spark", "--gap-after", "0h", "--json")
    assert done.code == 0, done.err
    assert (done.value["replicas"][0]["index"], done.value["replicas"][0]["given_up"]) == (2, [1])


def test_a_job_is_not_begun_where_no_replica_is(holdfast: RunCommand, two: Replicas) -> None:
    shutil.rmtree(two.folder / "far")
    done = holdfast("replica", "sync", "far", "--spark")
    assert (done.code, "there is no archive at" in done.err) == (4, True)
    assert not (two.folder / "far").exists()
    two.lose("far")
    assert holdfast("replica", "sync", "far", "--spark").code == 5


def test_a_trimming_says_first_what_it_would_do(holdfast: RunCommand, two: Replicas) -> None:
    for _ in range(3):
        two.back_up("near")
    two.change("far", active_until=1.0)
    options = ("replica", "trim", "--min-keep", "1", "--max-keep", "2")
    would = holdfast(*options, "--dry-run")
    assert would.out == (
        "would remove 2 entries; the log would begin at 3; lost by it: far; the recovery of each reads all that it "
        "has\n"
    )
    assert replica_rows(holdfast)["far"]["lost"] is False
    done = holdfast(*options, "--json")
    assert done.value == {
        "archive": two.archive, "name": "shop", "log_start": 3, "removed": 2, "lost": ["far"], "waits_for": [],
        "spared": [], "not_asked": [], "dry_run": False,
    }  # fmt: skip
    assert replica_rows(holdfast)["far"]["lost_reason"] == "it was away, and needs entry 1, which was trimmed"


def test_a_trimming_names_whom_it_waits_for(holdfast: RunCommand, two: Replicas) -> None:
    two.back_up("near")
    done = holdfast("replica", "trim", "--min-keep", "0")
    assert done.out == "removed 0 entries; the log begins at 1; far still needs that one\n"
    done = holdfast("replica", "trim", "--min-keep", "5", "--max-keep", "4")
    assert (done.code, "--min-keep 5 must not be" in done.err) == (2, True)


def test_a_quick_recovery_reads_nothing_that_is_there_in_its_size(holdfast: RunCommand, two: Replicas) -> None:
    (path,) = (each for each in (two.folder / "far" / "data").rglob("*.parquet"))
    path.write_bytes(bytes(path.stat().st_size))
    two.lose("far")
    assert holdfast("replica", "recover", "far", "--quick", "--json").value["replicas"][0]["files"] == 0
    two.lose("far")
    assert holdfast("replica", "recover", "far", "--json").value["replicas"][0]["files"] == 1
    assert two.is_whole("far")


def test_all_that_are_lost_are_recovered_whatever_becomes_of_one(holdfast: RunCommand, three: Replicas) -> None:
    assert "no replica is lost" in holdfast("replica", "recover", "--lost").err
    three.lose("far", "off")
    shutil.rmtree(three.folder / "far")
    (three.folder / "far").mkdir()
    (three.folder / "far" / "letter.txt").write_text("dear")
    done = holdfast("replica", "recover", "--lost")
    assert done.code == 4
    assert "holdfast: far: there is no archive at " in done.err
    assert done.out.startswith("off: 0 files (0 B) copied from near, 2 were there; at entry 0")
    assert [name for name, row in replica_rows(holdfast).items() if row["lost"]] == ["far"]


def test_a_replica_whose_files_are_damaged_is_made_whole(holdfast: RunCommand, two: Replicas) -> None:
    file = next((two.folder / "far" / "data").rglob("*.parquet"))
    file.write_bytes(bytes(len(file.read_bytes())))
    found = holdfast("verify", str(two.folder / "far"), "--deep")
    assert found.code == 4
    assert "holdfast replica recover far --damaged fetches them from another replica" in found.err
    done = holdfast("replica", "recover", "far", "--damaged", "--json")
    assert (done.code, done.value["replicas"][0]["files"]) == (0, 1)
    assert two.is_whole("far")
    assert holdfast("replica", "recover", "--lost", "--damaged").code == 2
    again = holdfast("verify", str(two.folder / "far"), "--deep")  # what is left is so at every place: it is no Parquet
    assert (again.code, "--damaged" in again.err) == (4, False)


def test_a_lost_replica_is_made_anew(holdfast: RunCommand, three: Replicas) -> None:
    three.back_up("near")
    three.sync("off")
    three.lose("far")
    done = holdfast("replica", "recover", "far", "--from", "off", "--json")
    assert done.code == 0, done.err
    (value,) = done.value["replicas"]
    assert {key: value[key] for key in ("replica", "from", "index", "files", "kept")} == {
        "replica": "far", "from": "off", "index": 1, "files": 2, "kept": 2,
    }  # fmt: skip
    assert "recovering far from off" in done.err
    assert three.is_whole("far")
    done = holdfast("replica", "recover", "far")
    assert (done.code, "replica far is not lost" in done.err) == (5, True)
