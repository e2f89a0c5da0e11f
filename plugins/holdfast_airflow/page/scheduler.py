"""Airflow's database as the scheduler that owners of locks are looked up in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import select

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


class DatabaseScheduler:
    """Scheduler in the sense of `holdfast.archive.locks.owner_status`, asked by Airflow's own tables."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def run_state(self, dag_id: str, run_id: str) -> str | None:
        """Return the state of a run. None where there is no such run."""
        state = self._session.scalar(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        return str(state) if state else None

    def task_state(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> str | None:
        """Return the state of a task instance. None where there is no such one."""
        state = self._session.scalar(
            select(TaskInstance.state).where(
                TaskInstance.dag_id == dag_id,
                TaskInstance.run_id == run_id,
                TaskInstance.task_id == task_id,
                TaskInstance.map_index == map_index,
            )
        )
        return str(state) if state else None

    def is_paused(self, dag_id: str) -> bool:
        """Return whether a DAG is paused. One that is not there is not."""
        return bool(self._session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag_id)))
