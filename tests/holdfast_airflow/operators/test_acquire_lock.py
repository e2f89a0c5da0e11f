"""A lock of the run, over the tasks behind the one that takes it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

import locking
from holdfast.common.errors import UsageError
from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.operators import AcquireLock
from holdfast_airflow.triggers.lock import ResourceFreeTrigger
from locking import RWLock
from tests.support.airflow.operators import acquire, execute, release


def test_lock_outlives_its_task_and_belongs_to_the_run(store: ObjectStore, context: dict[str, Any]) -> None:
    execute(acquire(purpose="monthly report", max_hold=timedelta(hours=2)), context)
    (info,) = locking.inspect(store)
    assert (info.resource, info.mode, info.state, info.purpose) == ("report", "W", "held", "monthly report")
    assert info.owner is not None
    assert (info.owner.scope, info.owner.dag_id, info.owner.run_id) == ("run", "nightly", "run 1")
    assert info.expires_in_s is not None
    assert 7200 < info.expires_in_s < 7400


def test_lock_is_given_back_when_its_task_is_killed_before_it_is_done(
    store: ObjectStore, context: dict[str, Any]
) -> None:
    operator = acquire()
    operator.on_kill()
    execute(operator, context)
    operator.on_kill()
    with RWLock(store, "report").write(wait=0):
        pass


def test_handle_is_plain_json_without_a_secret(store: ObjectStore, context: dict[str, Any]) -> None:
    handle = execute(acquire(), context)
    assert set(handle) == {"url", "handle", "max_hold_s"}
    assert set(handle["handle"]) == {"root", "resource", "mode", "txn", "lease_s", "grace_s"}


def test_busy_lock_defers(store: ObjectStore, context: dict[str, Any]) -> None:
    with RWLock(store, "report").read(purpose="somebody reads"), pytest.raises(TaskDeferred) as caught:
        execute(acquire(wait=timedelta(minutes=1)), context)
    trigger = caught.value.trigger
    assert isinstance(trigger, ResourceFreeTrigger)
    assert (trigger.resource, trigger.mode) == ("report", "W")


def test_lock_is_taken_when_the_trigger_says_it_is_free(store: ObjectStore, context: dict[str, Any]) -> None:
    deadline = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    handle = acquire().execute_when_free(context, {"state": "free"}, deadline)  # type: ignore[arg-type]
    assert handle["handle"]["resource"] == "report"


def test_name_that_cannot_be_locked_is_refused(store: ObjectStore, context: dict[str, Any]) -> None:
    with pytest.raises(JobRefused):
        execute(AcquireLock(task_id="lock", archive="shop", resource="../x"), context)


def test_mode_is_read_or_write() -> None:
    with pytest.raises(UsageError, match="a lock's mode is 'read' or 'write', not 'both'"):
        acquire(mode="both")


@pytest.mark.parametrize(("lease", "lives"), [(None, 7200), (timedelta(minutes=5), 300), (timedelta(hours=3), 7200)])
def test_lock_lives_as_long_as_its_lease_and_no_longer_than_may_be(
    store: ObjectStore, context: dict[str, Any], lease: timedelta | None, lives: int
) -> None:
    taken = execute(acquire(max_hold=timedelta(hours=2), lease=lease), context)
    assert (taken["handle"]["lease_s"], taken["max_hold_s"]) == (lives, 7200)


def test_lengths_of_time_are_given_in_words_in_seconds_and_by_templates(
    store: ObjectStore, context: dict[str, Any]
) -> None:
    assert {"lock_wait", "max_hold", "lease"} <= set(AcquireLock.template_fields)
    taken = execute(acquire(max_hold="90 min", lease="300", lock_wait=60), context)
    assert (taken["max_hold_s"], taken["handle"]["lease_s"]) == (5400, 300)


@pytest.mark.parametrize("name", ["lock_wait", "max_hold", "lease", "wait"])
def test_a_length_of_time_that_cannot_be_read_is_refused_when_the_dag_is_parsed(name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name}: cannot read 'soon' as a length of time"):
        acquire(**{name: "soon"})


def test_release_gives_back_the_lock_of_the_run(store: ObjectStore, context: dict[str, Any]) -> None:
    handle = execute(acquire(), context)
    release(context, handle)
    assert [info for info in locking.inspect(store) if info.state == "held"] == []
    with RWLock(store, "report").write(wait=0):
        pass


def test_releasing_twice_is_harmless(store: ObjectStore, context: dict[str, Any]) -> None:
    handle = execute(acquire(), context)
    release(context, handle)
    release(context, handle)


def test_readers_share_the_lock(store: ObjectStore, context: dict[str, Any]) -> None:
    for _ in range(2):
        execute(acquire(mode="read"), context)
    assert sorted(info.mode for info in locking.inspect(store)) == ["R", "R"]
