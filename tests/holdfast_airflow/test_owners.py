"""Owners of locks: Airflow's tasks and runs, and what the Airflow that a task runs in says of them."""

from __future__ import annotations

from enum import Enum
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from holdfast_airflow.owners import TaskSdk, owner_of


class State(Enum):
    FAILED = "failed"


class Sdk:
    """A task instance that knows a run, a task and a mapped one."""

    def get_dagrun_state(self, dag_id: str, run_id: str) -> Any:
        if (dag_id, run_id) != ("load", "r1"):
            raise LookupError(run_id)
        return "running"

    def get_task_states(self, dag_id: str, *, task_ids: list[str], run_ids: list[str], map_index: int) -> Any:
        states = {"back_up": State.FAILED, "part_3": "success"}
        name = task_ids[0] if map_index < 0 else f"{task_ids[0]}_{map_index}"
        return {"r1": {name: states[name]}} if run_ids == ["r1"] and name in states else {}

    def get_dag(self, dag_id: str) -> Any:
        return SimpleNamespace(is_paused=dag_id == "paused")


@pytest.mark.parametrize("scope", ["task", "run"])
def test_a_lock_is_owned_by_the_task_that_takes_it(context: dict[str, Any], scope: Literal["task", "run"]) -> None:
    task, owner = context["ti"], owner_of(context, scope=scope)  # type: ignore[arg-type]
    told = (owner.scope, owner.dag_id, owner.run_id, owner.task_id, owner.map_index)
    assert told == (scope, task.dag_id, task.run_id, task.task_id, task.map_index)


def test_states_are_airflows_words_however_it_gives_them() -> None:
    sdk = TaskSdk(Sdk())
    assert sdk.run_state("load", "r1") == "running"
    assert sdk.task_state("load", "r1", "back_up", -1) == "failed"
    assert sdk.task_state("load", "r1", "part", 3) == "success"


def test_of_a_task_that_airflow_does_not_know_nothing_is_said_and_an_unknown_run_is_an_error() -> None:
    sdk = TaskSdk(Sdk())
    assert sdk.task_state("load", "r1", "part", 4) is None
    assert sdk.task_state("load", "r2", "back_up", -1) is None
    with pytest.raises(LookupError):
        sdk.run_state("load", "r2")


def test_a_paused_dag_is_known() -> None:
    assert (TaskSdk(Sdk()).is_paused("paused"), TaskSdk(Sdk()).is_paused("load")) == (True, False)
