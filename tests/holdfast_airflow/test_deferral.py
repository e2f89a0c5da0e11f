"""A wait for a lock without a worker: until when, and what the trigger's answer means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator

from holdfast_airflow.deferral import RESUME, check_event, deadline_in, deferred_until_free
from holdfast_airflow.exceptions import JobFailed, LockWaitExpired
from holdfast_airflow.triggers.lock import ResourceFreeTrigger

TRIGGER = ResourceFreeTrigger(url="archive", deadline="", resource="report", mode="W")


def test_a_deadline_is_wall_clock_time_and_holds_in_other_processes() -> None:
    before = datetime.now(UTC)
    deadline = deadline_in(timedelta(hours=1))
    assert before + timedelta(hours=1) <= deadline <= datetime.now(UTC) + timedelta(hours=1)
    assert check_event({"state": "free"}, deadline.isoformat()) == deadline


def test_the_task_goes_on_when_the_trigger_fires_and_no_time_out_of_airflow_comes_first() -> None:
    deadline = deadline_in(timedelta(minutes=10))
    deferred = deferred_until_free(EmptyOperator(task_id="t"), TRIGGER, busy="r1 has it", deadline=deadline)
    assert (deferred.trigger, deferred.method_name) == (TRIGGER, RESUME)
    assert deferred.kwargs == {"deadline": deadline.isoformat()}
    assert isinstance(deferred.timeout, timedelta)
    assert deferred.timeout > timedelta(minutes=10)


@pytest.mark.parametrize("left", [timedelta(0), timedelta(minutes=-5)])
def test_where_no_time_is_left_the_task_fails_with_who_is_in_the_way(left: timedelta) -> None:
    with pytest.raises(LockWaitExpired, match="r1 has it") as caught:
        deferred_until_free(EmptyOperator(task_id="t"), TRIGGER, busy="r1 has it", deadline=deadline_in(left))
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("event", "error", "said"),
    [
        ({"state": "expired", "message": "r1 has it"}, LockWaitExpired, "r1 has it"),
        ({"state": "failed", "message": "403: check the keys"}, JobFailed, "403: check the keys"),
        ({"state": "of a later release"}, JobFailed, "the wait for a lock ended without an answer"),
        ({}, JobFailed, "without an answer"),
        (None, JobFailed, "without an answer"),
    ],
)
def test_any_other_answer_fails_the_task(event: dict[str, Any] | None, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        check_event(event, datetime.now(UTC).isoformat())
