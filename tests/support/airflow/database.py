"""Airflow's tables in memory, and rows of them as a scheduler would have left them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from airflow.models import import_all_models
from airflow.models.asset import AssetEvent, AssetModel
from airflow.models.base import Base
from airflow.models.dag import DagModel, DagTag
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@cache
def _engine() -> Engine:
    import_all_models()  # type: ignore[no-untyped-call]
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    Base.metadata.create_all(engine)
    return engine


@dataclass
class AirflowRows:
    """What a test has Airflow know; `session` sees it."""

    session: Session
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def _insert(self, model: type[Any], **values: Any) -> None:
        self.session.execute(model.__table__.insert(), values)

    def dag(
        self,
        name: str,
        *tags: str,
        paused: bool = False,
        schedule: str | None = "0 1 * * *",
        stale: bool = False,
        next_hours: float | None = None,
    ) -> None:
        """Add a DAG with tags, whose next run begins so many hours after noon."""
        after = None if next_hours is None else NOON + timedelta(hours=next_hours)
        self._insert(
            DagModel, dag_id=name, bundle_name="dags", max_active_tasks=1, max_consecutive_failed_dag_runs=0,
            has_task_concurrency_limits=False, is_paused=paused, is_stale=stale, timetable_summary=schedule,
            next_dagrun_create_after=after,
        )  # fmt: skip
        for tag in tags:
            self._insert(DagTag, dag_id=name, name=tag)

    def run(self, dag: str, run: str, state: str, *, hours: float = 0) -> None:
        """Add a run, so many hours after noon."""
        self._insert(
            DagRun, id=next(self._numbers), dag_id=dag, run_id=run, run_type="scheduled", state=state,
            run_after=NOON + timedelta(hours=hours),
        )  # fmt: skip

    def task(self, dag: str, run: str, name: str, state: str | None, **more: Any) -> None:
        """Add a task instance of a run, with its times in hours after noon."""
        values = {"pool": "default_pool", "map_index": -1, "try_number": 1, **more}
        for key in ("queued_dttm", "start_date", "end_date"):
            if key in more:
                values[key] = NOON + timedelta(hours=more[key])
        self._insert(TaskInstance, task_id=name, dag_id=dag, run_id=run, state=state, **values)

    def note(self, dag: str, run: str, task: str, key: str, value: Any, *, map_index: int = -1) -> None:
        """Add an XCom of a task."""
        self._insert(
            XComModel, dag_run_id=1, dag_id=dag, run_id=run, task_id=task, map_index=map_index, key=key, value=value
        )

    def asset(self, uri: str) -> int:
        """Add an asset; return its id."""
        number = next(self._numbers)
        self._insert(AssetModel, id=number, name=uri, uri=uri, group="asset")
        return number

    def event(self, asset: int, extra: Any, *, hours: float = 0) -> None:
        """Add an event of an asset, so many hours after noon."""
        self._insert(
            AssetEvent, id=next(self._numbers), asset_id=asset, timestamp=NOON + timedelta(hours=hours), extra=extra
        )

    def pool(self, name: str) -> None:
        """Add a pool."""
        self._insert(Pool, pool=name, slots=1, include_deferred=False)


@contextmanager
def airflow_rows() -> Iterator[AirflowRows]:
    """Give empty tables; what is added goes in the end."""
    with _engine().connect() as connection:
        transaction = connection.begin()
        with Session(connection) as session:
            yield AirflowRows(session)
        transaction.rollback()
