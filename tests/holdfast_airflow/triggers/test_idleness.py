"""How long nothing of a run has been at work."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.utils.state import TaskInstanceState, TerminalTIState

from holdfast_airflow.triggers import keep
from holdfast_airflow.triggers.keep import AT_WORK, RunIdleness


class Run:
    """A run with tasks in some states, as a trigger may ask for them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tasks: dict[str, str | None] = {}
        self.now = 100.0
        self.down = False
        monkeypatch.setattr(RuntimeTaskInstance, "get_ti_count", self.count)
        monkeypatch.setattr(keep, "time", SimpleNamespace(monotonic=lambda: self.now))

    def count(self, dag_id: str, *, task_ids: list[str] | None, run_ids: list[str], states: list[str]) -> int:
        if self.down:
            raise RuntimeError("no answer")
        assert (dag_id, run_ids) == ("nightly", ["r1"])
        return sum(state in states for task, state in self.tasks.items() if task_ids is None or task in task_ids)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose lock is kept, and which has nothing to do."""
    made = Run(monkeypatch)
    made.tasks = {"acquire": "success", "keep": "deferred", "first": "success", "second": None}
    return made


def looks(run: Run, *, at: list[float]) -> list[float]:
    idle = RunIdleness(dag_id="nightly", run_id="r1", keepers=["keep"])
    found = []
    for now in at:
        run.now = now
        found.append(idle.look())
    return found


def test_time_counts_from_the_first_look_at_which_nothing_was_at_work(run: Run) -> None:
    assert looks(run, at=[100.0, 160.0, 300.0]) == [0.0, 60.0, 200.0]


@pytest.mark.parametrize("state", AT_WORK)
def test_a_task_at_work_begins_it_anew(run: Run, state: str) -> None:
    run.tasks["second"] = state
    assert looks(run, at=[100.0, 200.0]) == [0.0, 0.0]


@pytest.mark.parametrize("state", [None, "up_for_retry", *TerminalTIState])
def test_a_task_that_does_not_run_counts_for_nothing(run: Run, state: Any) -> None:
    run.tasks["second"] = state and str(state)
    assert looks(run, at=[100.0, 200.0]) == [0.0, 100.0]


def test_every_state_of_airflow_is_one_or_the_other() -> None:
    assert {*AT_WORK, "up_for_retry", *map(str, TerminalTIState)} == set(map(str, TaskInstanceState))


def test_a_keeper_is_no_work_in_whatever_state(run: Run) -> None:
    run.tasks["keep"] = "scheduled"
    assert looks(run, at=[100.0, 200.0]) == [0.0, 100.0]


def test_where_airflow_does_not_answer_the_run_counts_as_at_work(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    run.down = True
    assert looks(run, at=[100.0, 200.0]) == [0.0, 0.0]
    assert "Airflow could not be asked what is at work of run r1: no answer" in caplog.text
