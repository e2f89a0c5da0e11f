"""Locks in other people's DAGs, in a running Airflow."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from locking import LockInfo, Owner, RWLock, inspect
from tests.support.airflow.failed_tasks import why_failed
from tests.support.airflow.stage import Stage

pytestmark = [pytest.mark.service, pytest.mark.together]


def locks_on(stage: Stage, resource: str) -> list[LockInfo]:
    """Return the locks on a resource that are not over."""
    return [info for info in inspect(stage.locked) if info.resource == resource and info.state != "dead"]


@pytest.mark.beside
def test_lock_of_a_run_is_waited_for_held_over_its_tasks_and_released(stage: Stage) -> None:
    api = stage.airflow.api
    with RWLock(stage.locked, "report").write(purpose="a person reads it"):
        run_id = stage.begin("report")
        stage.until_states("report", run_id, lock="deferred")
    assert stage.end("report", run_id) == "success"
    assert "a person reads it" in api.task_log("report", run_id, "lock")
    # Other scenarios hold locks of their own beside it.
    assert ["report", "W", "run", run_id] in api.xcom("report", run_id, "look")
    assert stage.states("report", run_id) == {"lock": "success", "look": "success", "unlock": "success"}
    assert locks_on(stage, "report") == []


@pytest.fixture(scope="module")
def failed(stage: Stage) -> str:
    """A run whose work failed under its lock; its id."""
    run_id = stage.begin("report", fail=True)
    assert stage.end("report", run_id) == "failed"
    return run_id


def test_lock_is_released_when_the_work_fails(stage: Stage, failed: str) -> None:
    reported = why_failed(stage.airflow)
    assert f"run {failed}, task look[-1], try 1: failed" in reported
    assert "RuntimeError: asked to fail" in reported
    assert stage.states("report", failed) == {"lock": "success", "look": "failed", "unlock": "success"}
    assert "RuntimeError: asked to fail" in stage.airflow.api.task_log("report", failed, "look")
    assert locks_on(stage, "report") == []


@pytest.mark.beside
def test_lock_of_a_run_whose_dag_is_paused_goes_and_its_work_is_not_done_without_it(stage: Stage) -> None:
    dag, api, may_end = "interrupted", stage.airflow.api, stage.folder.with_name("interrupted may end")
    run_id = stage.begin(dag, may_end=str(may_end))
    stage.until_states(dag, run_id, keep_lock="deferred", first="running")
    api.pause(dag)
    may_end.touch()
    # Its trigger has handed the lock back, and the scheduler starts nothing of a paused DAG.
    stage.until_states(dag, run_id, keep_lock="scheduled")
    (info,) = (info for info in locks_on(stage, dag) if info.state == "held")
    path = Path(stage.locked.url) / f"locks/{dag}/WRIT.{info.txn}"
    os.utime(path, (time.time() - 125,) * 2)  # of a lease and a grace of 60 s
    with RWLock(stage.locked, dag).write(wait=0):
        api.pause(dag, paused=False)
        assert stage.end(dag, run_id) == "failed"
    states = stage.states(dag, run_id)
    assert {states.pop(task) for task in ("keep_lock", "second")} == {"failed"}
    assert set(states.values()) == {"success"}
    kept = api.task_log(dag, run_id, "keep_lock")
    assert "did not start the task that keeps the lock in time: its DAG was paused" in kept, kept
    log = api.task_log(dag, run_id, "second")
    assert "So this task was not begun. Clear it to run it under a new lock" in log
    assert "at work without a lock" not in log


@pytest.mark.beside
def test_lock_of_a_block_is_renewed_by_a_trigger_while_the_block_runs(stage: Stage) -> None:
    run_id = stage.succeeds("ledger")
    tasks = ("acquire_ledger", "keep_ledger", "work", "release_ledger")
    assert stage.states("ledger", run_id) == dict.fromkeys(tasks, "success")
    assert "the lock was given back" in stage.airflow.api.task_log("ledger", run_id, "keep_ledger")
    assert locks_on(stage, "ledger") == []


@pytest.mark.beside
def test_lock_of_a_run_that_is_ended_by_hand_is_given_back(stage: Stage) -> None:
    run_id = stage.begin("ended", may_end=str(stage.folder.with_name("never")))
    stage.until_states("ended", run_id, keep_ledger="deferred", work="running")
    stage.airflow.api.end_run("ended", run_id)
    assert stage.end("ended", run_id) == "failed"
    assert stage.states("ended", run_id) == {
        "acquire_ledger": "success",
        "keep_ledger": "success",
        "work": "failed",
        "release_ledger": "success",
    }
    assert locks_on(stage, "ended") == []


@pytest.mark.beside
def test_mapped_work_is_done_under_locks_of_its_own(stage: Stage) -> None:
    # What comes last runs whether or not all of the work is done.
    run_id = stage.succeeds("mapped")
    states: dict[str, list[str]] = {}
    for task in stage.airflow.api.tasks("mapped", run_id):
        states.setdefault(task.task_id, []).append(str(task.state))
    assert {name: sorted(each) for name, each in states.items()} == {
        "load.acquire_one": ["success", "success"],
        "load.keep_one": ["success", "success"],
        "load.work": ["failed", "success"],
        "load.release_one": ["success", "success"],
        "alone": ["success", "success"],
        "got": ["success", "success"],
        "look": ["success"],
        "left": ["success"],
    }
    assert {"x", "y"} <= set(stage.airflow.api.xcom("mapped", run_id, "look"))
    assert [info for resource in ("x", "y", "good", "bad", "alone") for info in locks_on(stage, resource)] == []


def test_reaper_asks_airflow_who_has_finished(stage: Stage, failed: str) -> None:
    leases = {}
    for resource, run_id in {"of-an-ended-run": failed, "of-an-unknown-run": "no such run"}.items():
        owner = Owner(scope="run", dag_id="report", run_id=run_id, task_id="lock", map_index=-1)
        leases[resource] = RWLock(stage.locked, resource, owner=owner).write(wait=0, renew=False)
        path = Path(stage.locked.url) / f"locks/{resource}/WRIT.{leases[resource].txn}"
        os.utime(path, (time.time() - 125,) * 2)  # of a lease of 120 s, with a grace of 60 s
    reaped = stage.airflow.api.xcom("reaper", stage.succeeds("reaper"), "reap")
    reasons = {lock["txn"]: lock["reason"] for lock in reaped}
    assert reasons[leases["of-an-ended-run"].txn] == "its lease is over and its owner has finished"
    # On a machine so slow that its grace is over meanwhile, it goes for that.
    unknown = leases["of-an-unknown-run"]
    assert reasons.get(unknown.txn) in (None, "its lease and grace are over")
    unknown.release()
