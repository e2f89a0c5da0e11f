"""`holdfast locks`: what the person on call sees and may do, with nothing running but the command."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.archive import locks as archive_locks
from holdfast.archive.format.runs import read_last
from holdfast.storage import ObjectStore
from locking import Lease, LockLost, Owner, RWLock, inspect
from tests.support.airflow.airflow_answers import running_airflow_answers
from tests.support.jobs.command import RunCommand

Take = Callable[..., Lease]


@pytest.fixture
def take(store: ObjectStore) -> Iterator[Take]:
    """Take a lock in the archive; it is not renewed."""
    leases: list[Lease] = []

    def take_one(resource: str, *, mode: str = "W", owner: Owner | None = None, purpose: str = "") -> Lease:
        lock = RWLock(store, resource, owner=owner)
        taken = lock.write if mode == "W" else lock.read
        leases.append(taken(purpose=purpose, wait=0, renew=False))
        return leases[-1]

    yield take_one
    for lease in leases:
        lease.release()


def move_elsewhere(store: ObjectStore, lease: Lease) -> None:
    """Make the record of a lock that of a process on another machine."""
    key = f"locks/{lease.resource}/{'WRIT' if lease.mode == 'W' else 'READ'}.{lease.txn}"
    body = store.get(key)
    here = Owner().here()
    store.put(key, body.replace(here.boot_id.encode(), b"another-boot").replace(here.host.encode(), b"far"))


def leave_behind(store: ObjectStore, resource: str) -> str:
    """Have another process take a lock and end without giving it back; return its txn."""
    code = (
        "import os, sys\n"
        "from holdfast.storage import open_store\n"
        "from locking import RWLock\n"
        "lease = RWLock(open_store(sys.argv[1]), sys.argv[2]).write(purpose='work', wait=0, renew=False)\n"
        "print(lease.txn, flush=True)\n"
        "os._exit(9)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, store.url, resource], capture_output=True, text=True, check=False
    ).stdout.strip()


def test_every_lock_is_listed_with_its_holder(holdfast: RunCommand, store: ObjectStore, take: Take) -> None:
    lease = take("ingest-shop", owner=Owner(dag_id="nightly", run_id="r1", task_id="load"), purpose="backup shop")
    (found,) = holdfast("locks", "list", store.url, "--json").value["locks"]
    assert {"resource", "mode", "txn", "owner", "age_s", "expires_in_s", "state"} <= set(found)
    assert (found["resource"], found["mode"], found["txn"]) == ("ingest-shop", "W", lease.txn)
    assert (found["state"], found["process"], found["owner"]["dag_id"]) == ("held", "running", "nightly")
    assert 0 <= found["age_s"] < 60
    assert 100 < found["expires_in_s"] <= 180
    said = holdfast("locks", "list", store.url).out
    assert said.startswith("held: ingest-shop is held for writing for backup shop by task load of dag nightly (run r1)")
    assert lease.txn in said


def test_an_archive_without_locks_says_so(holdfast: RunCommand, store: ObjectStore) -> None:
    assert holdfast("locks", "list", store.url).out == "no locks\n"
    assert holdfast("locks", "list", store.url, "--json").value == {"locks": [], "sources": []}
    assert holdfast("locks", "reap", store.url).out == "no dead locks\n"


@pytest.mark.parametrize("command", ["list", "explain", "reap"])
def test_a_place_that_has_neither_archive_nor_locks_is_a_mistake(
    holdfast: RunCommand, store: ObjectStore, command: str
) -> None:
    done = holdfast("locks", command, f"{store.url}-typo", "--json")
    assert done.code == 2
    assert "is not an archive" in done.value["error"]


def test_locks_are_shown_where_the_archive_cannot_be_read(holdfast: RunCommand, store: ObjectStore, take: Take) -> None:
    store.put("archive.json", b"damaged")
    take("history")
    assert len(holdfast("locks", "list", store.url, "--json").value["locks"]) == 1


def test_a_lock_is_explained_by_what_can_be_seen(holdfast: RunCommand, store: ObjectStore, take: Take) -> None:
    mine, far = take("history"), take("ingest-shop")
    move_elsewhere(store, far)
    store.put("locks/format/note", b"")
    found = {each["resource"]: each for each in holdfast("locks", "explain", store.url, "--json").value["locks"]}
    assert (found["history"]["safe"], found["history"]["process"]) == ("wait", "running")
    assert {"restore", "verification"} <= set(found["history"]["keeps_out"])
    assert "backup" not in found["history"]["keeps_out"]
    assert "kill" in found["history"]["advice"]
    assert (found["ingest-shop"]["safe"], found["ingest-shop"]["process"]) == ("wait", "unknown")
    assert found["ingest-shop"]["keeps_out"] == ["backup", "repair"]
    assert "on far only" in found["ingest-shop"]["advice"]
    assert (found["format"]["safe"], found["format"]["state"]) == ("remove", "foreign")
    assert {"backup", "restore", "verification"} <= set(found["format"]["keeps_out"])
    (only,) = holdfast("locks", "explain", store.url, "--txn", mine.txn, "--json").value["locks"]
    assert only["txn"] == mine.txn


def test_who_waits_for_a_lock_is_named(holdfast: RunCommand, store: ObjectStore, take: Take) -> None:
    reader, writer = take("history", mode="R"), take("scratch")
    body = store.get(f"locks/scratch/WRIT.{writer.txn}").replace(b'"resource":"scratch"', b'"resource":"history"')
    store.put(f"locks/history/INTENT.WRIT.{writer.txn}", body)
    found = {each["txn"]: each for each in holdfast("locks", "explain", store.url, "--json").value["locks"]}
    assert found[reader.txn]["waiting"] == [writer.txn]
    assert found[writer.txn]["waiting"] == []
    assert "waiting for it: history is requested for writing" in holdfast("locks", "explain", store.url).out


def test_reaping_frees_what_a_killed_process_left_and_nothing_else(
    holdfast: RunCommand, store: ObjectStore, take: Take
) -> None:
    mine, left = take("history"), leave_behind(store, "ingest-shop")
    (explained,) = holdfast("locks", "explain", store.url, "--txn", left, "--json").value["locks"]
    assert (explained["process"], explained["safe"], explained["keeps_out"]) == ("gone", "reap", [])
    (ended,) = holdfast("locks", "reap", store.url, "--json").value["ended"]
    assert (ended["txn"], ended["reason"]) == (left, "its process is gone")
    assert [info.txn for info in inspect(store)] == [mine.txn]
    mine.check()


def test_breaking_ends_the_one_lock_and_records_who_and_why(
    holdfast: RunCommand, store: ObjectStore, take: Take
) -> None:
    broken, other = take("ingest-shop", purpose="backup shop"), take("ingest-crm")
    done = holdfast("locks", "break", store.url, "--txn", broken.txn, "--reason", "its host burnt", "--json")
    assert done.code == 0
    assert done.value["reason"] == "its host burnt"
    assert done.value["by"]["user"] == Owner().here().user
    assert "still runs here" in done.err
    with pytest.raises(LockLost):
        broken.check()
    other.check()
    record = read_last(store, done.value["run"])
    assert record is not None
    assert (record.operation, record.state) == ("break", "succeeded")


def test_who_broke_a_lock_and_why_is_told_for_good(holdfast: RunCommand, store: ObjectStore, take: Take) -> None:
    lease = take("ingest-shop")
    holdfast("locks", "break", store.url, "--txn", lease.txn, "--reason", "its host burnt")
    store.delete(f"locks/ingest-shop/DEAD.{lease.txn}")
    (told,) = holdfast("locks", "explain", store.url, "--txn", lease.txn, "--json").value["broken"]
    assert (told["resource"], told["outcome"], told["reason"]) == ("ingest-shop", "succeeded", "its host burnt")
    assert "was broken at" in holdfast("locks", "explain", store.url).out


def test_a_part_of_a_txn_breaks_nothing(holdfast: RunCommand, store: ObjectStore, take: Take) -> None:
    lease = take("ingest-shop")
    assert holdfast("locks", "break", store.url, "--txn", lease.txn[:8], "--reason", "x").code == 2
    lease.check()


def test_a_lock_without_history_is_said_to_have_been_released(holdfast: RunCommand, store: ObjectStore) -> None:
    done = holdfast("locks", "explain", store.url, "--txn", "f" * 32, "--json")
    assert (done.code, "it was released" in done.value["error"]) == (2, True)


def test_the_plan_needs_no_archive(holdfast: RunCommand) -> None:
    found = {each["operation"]: each for each in holdfast("locks", "plan", "--json").value["operations"]}
    assert [(lock["resource"], lock["mode"]) for lock in found["backup"]["locks"]] == [
        ("format", "R"),
        ("ingest-<source>", "W"),
    ]
    assert found["backup"]["in_this_release"]
    assert found["query"]["in_this_release"]
    assert not found["export"]["in_this_release"]
    assert "W ingest-<source>" in holdfast("locks", "plan").out


def test_the_plan_of_an_archive_names_its_sources_and_who_is_in_the_way(
    holdfast: RunCommand, filled: ObjectStore
) -> None:
    with archive_locks.acquire(filled, "restore", owner=Owner(), purpose="restore", wait=0):
        values = holdfast("locks", "plan", filled.url, "--json").value["operations"]
        said = holdfast("locks", "plan", filled.url).out
    found = {each["operation"]: each for each in values}
    assert found["backup"]["sources"] == ["shop_db"]
    assert found["backup"]["in_the_way"] == found["restore"]["in_the_way"] == found["vacuum"]["in_the_way"] == []
    assert [info["resource"] for info in found["migration"]["in_the_way"]] == ["format"]
    assert [info["resource"] for info in found["recovery"]["in_the_way"]] == ["format", "history"]
    assert "backup of shop_db\n" in said
    assert "in the way now: format is held for reading for restore by process" in said


def age(store: ObjectStore, lease: Lease, seconds: float) -> None:
    """Let a lock look as if it had been renewed so long ago; the store is a folder."""
    path = Path(store.url) / f"locks/{lease.resource}/{'WRIT' if lease.mode == 'W' else 'READ'}.{lease.txn}"
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_a_lock_whose_lease_is_over_goes_sooner_where_airflow_says_that_its_run_has_ended(
    holdfast: RunCommand, store: ObjectStore, take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner(scope="run", dag_id="nightly", run_id="r1")
    over, young = take("report", owner=owner), take("other", owner=owner)
    age(store, over, 130)  # of a lease of 120 s, with a grace of 60 s
    monkeypatch.setenv("AIRFLOW_CLI_TOKEN", "a secret")
    with running_airflow_answers() as airflow:
        asks = ("--airflow", airflow.url, "--json")
        airflow.states["nightly/dagRuns/r1"] = "running"
        assert holdfast("locks", "reap", store.url, *asks).value == {"ended": []}
        explained = {each["txn"]: each for each in holdfast("locks", "explain", store.url, *asks).value["locks"]}
        assert (explained[young.txn]["finished"], explained[young.txn]["airflow_state"]) == (False, "running")
        assert explained[young.txn]["advice"].startswith(
            "It belongs to the run r1 of dag nightly, which Airflow says is running: it ends in 1"
        )
        airflow.paused["nightly"] = True
        explained = {each["txn"]: each for each in holdfast("locks", "explain", store.url, *asks).value["locks"]}
        assert "but its DAG is paused" in explained[young.txn]["advice"]
        airflow.states["nightly/dagRuns/r1"] = "failed"
        assert holdfast("locks", "reap", store.url, "--json").value == {"ended": []}
        explained = {each["txn"]: each for each in holdfast("locks", "explain", store.url, *asks).value["locks"]}
        assert (explained[young.txn]["finished"], explained[young.txn]["safe"]) == (True, "break")
        assert explained[young.txn]["advice"].startswith("Airflow says that its run has ended: it ends in 1")
        monkeypatch.setenv("HOLDFAST_AIRFLOW_URL", airflow.url)
        done = holdfast("locks", "reap", store.url, "--json")
        assert [(each["txn"], each["reason"]) for each in done.value["ended"]] == [
            (over.txn, "its lease is over and its owner has finished")
        ]
        assert airflow.tokens == {"Bearer a secret"}
    assert "a secret" not in done.out + done.err
    assert [info.txn for info in inspect(store) if info.state == "held"] == [young.txn]


def test_an_airflow_that_is_down_keeps_nobody_from_reaping(
    holdfast: RunCommand, store: ObjectStore, take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CLI_TOKEN", "a secret")
    over = take("report", owner=Owner(scope="run", dag_id="nightly", run_id="r1"))
    left = take("other", owner=Owner(scope="run", dag_id="nightly", run_id="r1"))
    age(store, over, 181)
    age(store, left, 130)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        done = holdfast("locks", "reap", store.url, "--airflow", url, "--json")
    assert [each["txn"] for each in done.value["ended"]] == [over.txn]


def test_an_airflow_without_a_token_is_a_mistake(
    holdfast: RunCommand, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CLI_TOKEN", raising=False)
    done = holdfast("locks", "reap", store.url, "--airflow", "http://127.0.0.1:1", "--json")
    assert done.code == 2
    assert "set AIRFLOW_CLI_TOKEN" in done.value["error"]
