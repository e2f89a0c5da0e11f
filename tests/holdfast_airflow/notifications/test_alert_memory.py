"""What alerts have said is said again after hours, and nothing is hidden."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from holdfast_airflow.notifications import alert_memory
from holdfast_airflow.notifications.alert_memory import AlertMemory
from tests.support.airflow.variables import Variables

AGAIN = timedelta(hours=6)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 28, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Variables:
    made = Variables()
    monkeypatch.setattr(alert_memory, "Variable", made)
    return made


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def remember(variables: Variables, clock: Clock) -> Callable[..., AlertMemory]:
    def made(sleep: Callable[[float], None] = lambda _: None) -> AlertMemory:
        return AlertMemory("alerts", AGAIN, now=clock, sleep=sleep)

    return made


def fail(memory: AlertMemory, task: str, *said: str) -> tuple[list[str], list[str]]:
    return tuple(memory.failed(task, {each: each for each in said}))  # type: ignore[return-value]


def test_a_cause_is_said_when_it_comes_again_after_hours_and_when_it_is_over(
    remember: Callable[..., AlertMemory], clock: Clock, variables: Variables
) -> None:
    memory = remember()
    said = []
    for _ in range(144):  # a day of runs
        said += fail(memory, "judge", "rpo is missed")[0]
        clock.time += timedelta(minutes=10)
    assert said == ["rpo is missed"] * 4
    assert memory.succeeded("judge").over == ["rpo is missed"]
    assert variables.values == {}
    assert memory.succeeded("judge").over == []
    assert fail(memory, "judge", "rpo is missed") == (["rpo is missed"], [])


def test_of_two_causes_each_comes_and_goes_by_itself(remember: Callable[..., AlertMemory]) -> None:
    memory = remember()
    assert fail(memory, "judge", "a") == (["a"], [])
    assert fail(memory, "judge", "a", "b") == (["b"], [])
    assert fail(memory, "judge", "b") == ([], ["a"])


def test_tasks_share_a_cause_and_the_first_that_succeeds_ends_it(remember: Callable[..., AlertMemory]) -> None:
    memory = remember()
    assert fail(memory, "backup", "no such bucket")[0] == ["no such bucket"]
    assert fail(memory, "drill", "no such bucket")[0] == []
    assert memory.succeeded("other").over == []
    assert memory.succeeded("drill").over == ["no such bucket"]
    assert memory.succeeded("backup").over == []


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("held by process 7 since 12:00:01", "held by process 41 since 13:10:59", True),
        ("no moment at 2026-11-28T12:00:00+00:00", "no moment at 2026-11-29T01:00:00.5Z", True),
        (f"txn {'0f' * 16} is gone", f"txn {'1e' * 16} is gone", True),
        ("db1 does not answer", "db2 does not answer", False),
        ("db-1 does not answer", "db-2 does not answer", False),
        ("10.0.0.1:5432 does not answer", "host/1 does not answer", False),
    ],
)
def test_numbers_and_times_make_no_other_cause_and_names_do(
    remember: Callable[..., AlertMemory], first: str, second: str, is_same: bool
) -> None:
    memory = remember()
    fail(memory, "backup", first)
    assert (fail(memory, "backup", second)[0] == []) is is_same


def test_of_tasks_that_fail_at_the_same_moment_one_speaks(
    remember: Callable[..., AlertMemory], variables: Variables
) -> None:
    said = []

    def meanwhile(_: float) -> None:
        variables.values.clear()  # the other has read before this one wrote, and writes over it
        said.extend(fail(remember(), "second", "no such bucket")[0])

    said += fail(remember(meanwhile), "first", "no such bucket")[0]
    assert said == ["no such bucket"]
    assert fail(remember(), "first", "no such bucket")[0] == []


def test_what_could_not_be_said_is_said_the_next_time(remember: Callable[..., AlertMemory]) -> None:
    memory = remember()
    fail(memory, "backup", "no such bucket")
    memory.take_back("backup")
    assert fail(memory, "backup", "no such bucket")[0] == ["no such bucket"]


def test_where_airflow_cannot_be_asked_everything_is_said(
    remember: Callable[..., AlertMemory], variables: Variables, caplog: pytest.LogCaptureFixture
) -> None:
    variables.fails = True
    memory = remember()
    for _ in range(2):
        assert fail(memory, "backup", "no such bucket")[0] == ["no such bucket"]
    assert "cannot be read from the Variable alerts" in caplog.text
    variables.fails = False
    variables.values["alerts"] = "[1]"  # somebody has written it
    assert fail(memory, "backup", "no such bucket")[0] == ["no such bucket"]


def test_a_task_that_does_not_run_any_more_is_forgotten(
    remember: Callable[..., AlertMemory], clock: Clock, variables: Variables
) -> None:
    memory = remember()
    fail(memory, "old", "gone")
    clock.time += timedelta(days=32)
    fail(memory, "new", "here")
    assert list(memory._read()) == ["new"]
