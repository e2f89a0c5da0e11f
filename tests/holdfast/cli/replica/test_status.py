"""`holdfast replica status`: what it tells, as JSON and in words."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from holdfast.replication.log import schema
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.source_lease import take_source
from holdfast.replication.log.store import ENVIRONMENT, CoordinationStore
from holdfast.replication.log.trimming import trim
from holdfast.replication.work.leading import leading
from tests.support.jobs.command import RunCommand
from tests.support.replicas.hung import PATIENCE_S, hanging
from tests.support.replicas.replicated import Replicas, nothing, replica_rows

pytestmark = pytest.mark.usefixtures("log_address")


def test_the_status_has_these_keys(holdfast: RunCommand, two: Replicas) -> None:
    two.back_up("near")
    (archive,) = holdfast("replica", "status", "--json").value["archives"]
    replicas = {row["name"]: row for row in archive.pop("replicas")}
    store = two.state("near").log
    assert store is not None
    assert archive == {
        "archive": two.archive,
        "name": "shop",
        "store": store.store,
        "head": 1,
        "log_start": 1,
        "leader": None,
        "leader_epoch": 0,
        "leader_lease_s": 0.0,
        "quorum_index": 0,
        "pending_quorums": [],
        "missing": [],
        "sources": [],
    }
    far = replicas["far"]
    assert far.pop("seconds_behind") >= 0
    assert 0 < far.pop("lease_s") <= 900
    assert far.pop("active_until").endswith("Z")
    assert far.pop("bytes_behind") == two.state("near").blocks[two.backups[-1]].size
    assert far == {
        "name": "far",
        "url": str(two.folder / "far"),
        "pointer": 1,
        "entries_behind": 1,
        "epoch": 1,
        "active": True,
        "lost": False,
        "lost_reason": None,
        "recovers_from": None,
        "silent_s": None,
        "asked_again_s": None,
        "look": {"index": 0, "problem": None},
    }
    assert (replicas["near"]["entries_behind"], replicas["near"]["pointer"]) == (0, 2)


def test_the_status_is_told_in_words(holdfast: RunCommand, three: Replicas) -> None:
    three.back_up("near")
    three.change("far", active_until=1.0)
    three.lose("off")
    done = holdfast("replica", "status")
    assert f"shop ({three.archive}): entries up to 1, of which the log has those from 1 on" in done.out
    assert "inactive since 1970-01-01T00:00:01.000000Z" in done.out
    assert "lost: it was away" in done.out
    assert "1 entries, " in done.out
    assert "active, for " in done.out
    three.change("off", recovers_from="near")
    assert "lost, being recovered from near, but that has died" in holdfast("replica", "status").out


def test_the_status_names_the_leader_while_its_lease_runs(holdfast: RunCommand, two: Replicas) -> None:
    with leading(two.open("near")):
        (archive,) = holdfast("replica", "status", "--json").value["archives"]
        assert (archive["leader"], archive["leader_epoch"], archive["leader_lease_s"] > 800) == ("near", 1, True)
        assert "near leads, for " in holdfast("replica", "status").out
    assert "leads" not in holdfast("replica", "status").out


def test_how_long_a_replica_is_behind_is_told_also_where_the_log_has_no_entry_of_it(
    holdfast: RunCommand, two: Replicas
) -> None:
    two.back_up("near")
    two.change("far", active_until=1.0, synced_at=1000.0)
    assert 0 <= float(str(replica_rows(holdfast)["far"]["seconds_behind"])) < 100
    assert holdfast("replica", "trim", "--min-keep", "0", "--max-keep", "0").code == 0
    assert float(str(replica_rows(holdfast)["far"]["seconds_behind"])) > 1_000_000_000
    assert "shop" in holdfast("replica", "status").out


def test_a_store_without_archives_says_so(holdfast: RunCommand, log_address: str) -> None:
    CoordinationStore.open(log_address).close()
    assert holdfast("replica", "status").out == f"no archive has replicas in {log_address}\n"
    assert holdfast("replica", "status", "--json").value == {"archives": []}
    done = holdfast("replica", "sync", "--all")
    assert (done.code, "no archive has replicas in" in done.err) == (2, True)


def test_the_status_names_what_waits_for_its_quorum(holdfast: RunCommand, three: Replicas) -> None:
    archive = three.open("near")
    archive.quorum_request = QuorumRequest(2)
    archive.add(three.backup(archive.store), check=nothing, fence=None)
    (told,) = holdfast("replica", "status", "--json").value["archives"]
    (pending,) = told["pending_quorums"]
    assert 3500 < pending.pop("seconds_left") <= 3600
    assert pending == {"entry": 1, "source": "shop_db", "size": 2, "replicas": ["near"]}
    words = holdfast("replica", "status").out
    assert "entry 1, a backup of shop_db, waits for its quorum: 1 of 2 replicas (near), for 3" in words
    three.sync("far")
    (told,) = holdfast("replica", "status", "--json").value["archives"]
    assert (told["pending_quorums"], told["quorum_index"]) == ([], 2)


def test_who_backs_a_source_up_is_shown_by_the_status_and_among_the_locks(holdfast: RunCommand, two: Replicas) -> None:
    acting = two.open("near").in_use()[1]
    two.coordination.run(lambda c: take_source(c, acting, "shop_db", "run-1"))
    words = f"shop_db is being backed up by near, run run-1 (process {os.getpid()} on "
    assert words in holdfast("replica", "status").out
    assert words in holdfast("locks", "list", two.place("far").url).out
    (lease,) = holdfast("locks", "list", two.place("far").url, "--json").value["sources"]
    assert (lease["source"], lease["replica"], lease["run"]) == ("shop_db", "near", "run-1")
    assert (lease["owner"]["pid"], lease["process"]) == (os.getpid(), "running")
    assert 0 < lease["expires_in_s"] <= 900


def test_locks_are_listed_where_the_store_cannot_be_asked(
    holdfast: RunCommand, two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ENVIRONMENT)
    done = holdfast("locks", "list", two.place("far").url, "--json")
    assert (done.code, done.value) == (0, {"locks": [], "sources": []})
    assert "the sources that are being backed up through replicas are unknown: say where the" in done.err


def test_a_look_says_how_far_each_is_and_which_place_cannot_be_reached(holdfast: RunCommand, three: Replicas) -> None:
    three.back_up("near")
    three.lose("off")
    shutil.rmtree(three.folder / "far")
    shown = holdfast("replica", "status", "--look").out.splitlines()
    far, near, off = sorted(line.strip() for line in shown if str(three.folder) in line)
    assert "; cannot be read: " in far
    assert near.endswith(" s")
    assert off.endswith("lost: it was away")
    (archive,) = holdfast("replica", "status", "--look", "--json").value["archives"]
    looks = {row["name"]: row["look"] for row in archive["replicas"]}
    assert (looks["near"], looks["off"]) == ({"index": 1, "problem": None}, {"index": 0, "problem": None})
    assert looks["far"]["problem"]


def test_a_store_that_is_an_older_copy_says_so(holdfast: RunCommand, two: Replicas) -> None:
    for _ in range(2):
        two.back_up("near")
    two.coordination.run(lambda c: c.execute(schema.archives.update().values(head=1)))
    two.change("near", pointer=1)
    done = holdfast("replica", "status")
    assert (done.code, "near" in done.err, "was brought back from an older copy" in done.err) == (4, True, True), (
        done.err
    )
    assert any("near" in line and line.endswith("; has entry 2") for line in done.out.splitlines())
    assert holdfast("replica", "status", "--no-look").code == 0


def test_a_look_does_not_wait_for_one_that_hangs(holdfast: RunCommand, two: Replicas) -> None:
    with hanging(two, "far"):
        began = time.monotonic()
        shown = holdfast("replica", "status", "--look").out
        assert time.monotonic() - began < PATIENCE_S
    assert "; cannot be read: it has not answered within" in shown


def test_bytes_behind_count_what_was_trimmed(holdfast: RunCommand, two: Replicas) -> None:
    for _ in range(4):
        two.back_up("near")
    before = replica_rows(holdfast)["far"]["bytes_behind"]
    assert before == sum(two.state("near").blocks[block].size for block in two.backups[1:])
    two.change("far", active_until=1.0)
    for _ in range(2):
        trim(two.coordination, two.archive, min_keep=2, max_keep=2)
        assert replica_rows(holdfast)["far"]["bytes_behind"] == before
    two.back_up("near")
    trim(two.coordination, two.archive, min_keep=0, max_keep=0)
    far = replica_rows(holdfast)["far"]
    assert (far["entries_behind"], far["lost"]) == (5, True)
    assert far["bytes_behind"] == before + two.state("near").blocks[two.backups[-1]].size
    two.recover("far")
    assert replica_rows(holdfast)["far"]["bytes_behind"] == 0
