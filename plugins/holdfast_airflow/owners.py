"""Owners of locks as Airflow's tasks and runs, and their state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from locking import Owner

if TYPE_CHECKING:
    from airflow.sdk import Context


def owner_of(context: Context, *, scope: Literal["task", "run"]) -> Owner:
    """Return the running task as the owner of a lock, which ends with it or outlives it."""
    task = context["ti"]
    return Owner(
        scope=scope,
        dag_id=task.dag_id,
        run_id=task.run_id,
        task_id=task.task_id,
        map_index=task.map_index,
    )


class TaskSdk:
    """Scheduler of the task that runs, asked through its Task SDK."""

    def __init__(self, task: Any) -> None:
        self._task = task

    def run_state(self, dag_id: str, run_id: str) -> str | None:
        """Return the state of a run. Raises where this Airflow has no such run."""
        return _word(self._task.get_dagrun_state(dag_id, run_id))

    def task_state(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> str | None:
        """Return the state of a task instance, or None where this Airflow has no such one."""
        states = self._task.get_task_states(dag_id, task_ids=[task_id], run_ids=[run_id], map_index=map_index)
        name = task_id if map_index < 0 else f"{task_id}_{map_index}"
        return _word(states.get(run_id, {}).get(name))

    def is_paused(self, dag_id: str) -> bool:
        """Return whether a DAG is paused. Raises where this Airflow has no such DAG."""
        return bool(self._task.get_dag(dag_id).is_paused)


def _word(state: Any) -> str | None:
    return None if state is None else str(getattr(state, "value", state))
