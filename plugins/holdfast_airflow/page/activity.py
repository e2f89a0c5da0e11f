"""Tasks of archives in Airflow's database: those at work, those that wait, those that have failed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.models.dag import DagModel, DagTag
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import and_, or_, select
from sqlalchemy.orm import aliased

from holdfast_airflow.notes import FAILURE, RUN
from holdfast_airflow.runbooks import operation_of, runbook_for

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from sqlalchemy.orm import Session

TAG = "holdfast"
"""The tag of the DAGs that archives.yaml makes; beside it each has the archive's name."""

ACTIVE = ("queued", "running", "deferred", "awaiting_input", "restarting", "up_for_retry", "up_for_reschedule")
"""States of tasks that are at work or wait for something, by Airflow's words (3.3)."""

MOST_FAILURES = 100


@dataclass(frozen=True)
class Task:
    """One task of an archive's DAGs.

    :param since: when it began, or, where it has not, when it was queued.
    :param run: of its job in the archive, where one has begun.
    """

    archive: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    state: str
    try_number: int
    since: datetime | None
    ended: datetime | None
    run: str | None = None
    sentence: str = ""
    exit_code: int | None = None

    def describe(self) -> dict[str, Any]:
        times = {name: at.isoformat() if at else None for name, at in (("since", self.since), ("ended", self.ended))}
        return {**asdict(self), **times, "runbook": self.runbook}

    @property
    def runbook(self) -> str | None:
        """Return the name of the runbook for its failure, below docs/runbooks. None where there is none."""
        return runbook_for(operation_of(self.dag_id, self.archive), self.exit_code)


@dataclass(frozen=True)
class Dag:
    """One DAG of an archive.

    :param operation: as its id begins, before the archive's name.
    :param has_schedule: runs of it are missed while it is paused.
    :param next: when its next scheduled run begins; None where none will.
    """

    dag_id: str
    archive: str
    is_paused: bool = False
    has_schedule: bool = False
    next: datetime | None = None

    @property
    def operation(self) -> str:
        """Return its operation, such as `backup`."""
        return operation_of(self.dag_id, self.archive)

    def describe(self) -> dict[str, Any]:
        return {
            "dag_id": self.dag_id,
            "operation": self.operation,
            "paused": self.is_paused,
            "next": self.next.isoformat() if self.next else None,
        }


@dataclass(frozen=True)
class Dags:
    """The DAGs of archives, by their ids."""

    by_id: Mapping[str, Dag]

    @cached_property
    def _by_archive(self) -> dict[str, list[Dag]]:
        by_archive: dict[str, list[Dag]] = {}
        for _, dag in sorted(self.by_id.items()):
            by_archive.setdefault(dag.archive, []).append(dag)
        return by_archive

    def of(self, archive: str) -> list[Dag]:
        """Return an archive's DAGs, by their ids."""
        return self._by_archive.get(archive, [])

    def paused(self, archive: str) -> list[str]:
        """Return the ids of an archive's DAGs that have a schedule and are paused."""
        return [dag.dag_id for dag in self.of(archive) if dag.is_paused and dag.has_schedule]


def dags_of(session: Session, archives: Collection[str]) -> Dags:
    """Return the DAGs of these archives, by their tags."""
    own = aliased(DagTag)
    rows = session.execute(
        select(
            DagTag.dag_id, own.name, DagModel.is_paused, DagModel.timetable_summary, DagModel.next_dagrun_create_after
        )
        .join(own, own.dag_id == DagTag.dag_id)
        .join(DagModel, DagModel.dag_id == DagTag.dag_id)
        .where(DagTag.name == TAG, DagModel.is_stale.is_(False))
    ).all()
    return Dags(
        {
            dag: Dag(dag, tag, bool(is_paused), summary not in (None, "None", "null"), None if is_paused else after)
            for dag, tag, is_paused, summary, after in rows
            if tag in archives and dag.endswith(f"_{tag}")
        }
    )


def active_tasks(session: Session, dags: Dags) -> list[Task]:
    """Return the tasks that are at work or wait, with their jobs' runs; two queries."""
    rows = session.execute(
        select(TaskInstance)
        .join(DagTag, and_(DagTag.dag_id == TaskInstance.dag_id, DagTag.name == TAG))
        .where(TaskInstance.state.in_(ACTIVE))
        .order_by(TaskInstance.queued_dttm)
    ).scalars()
    of_dags = [row for row in rows if row.dag_id in dags.by_id]
    notes = notes_of(session, of_dags, RUN)
    return [_task(row, dags, run=(notes.get(task_key(row)) or {}).get("run")) for row in of_dags]


def open_failures(session: Session, dags: Dags) -> list[Task]:
    """Return failed tasks of DAGs whose newest finished run failed, the newest first; three queries."""
    run = aliased(DagRun)
    newest = (
        select(run.id)
        .where(run.dag_id == DagModel.dag_id, run.state.in_(("success", "failed")))
        .order_by(run.run_after.desc())
        .limit(1)
        .correlate(DagModel)
        .scalar_subquery()
    )
    failed = session.execute(
        select(DagRun.dag_id, DagRun.run_id)
        .join(DagModel, DagRun.id == newest)
        .join(DagTag, and_(DagTag.dag_id == DagModel.dag_id, DagTag.name == TAG))
        .where(DagRun.state == "failed")
        .order_by(DagRun.run_after.desc())
    ).all()
    runs = [(dag, run) for dag, run in failed if dag in dags.by_id][:MOST_FAILURES]
    if not runs:
        return []
    rows = session.execute(
        select(TaskInstance)
        .where(TaskInstance.state == "failed", _any_of(runs))
        .order_by(TaskInstance.end_date.desc())
        .limit(MOST_FAILURES)
    )
    tasks = list(rows.scalars())
    notes, jobs = notes_of(session, tasks, FAILURE), notes_of(session, tasks, RUN)
    return [
        _task(
            row,
            dags,
            run=(jobs.get(task_key(row)) or {}).get("run"),
            sentence=str(note.get("sentence", "")),
            exit_code=note.get("exit_code"),
        )
        for row in tasks
        for note in (notes.get(task_key(row)) or {},)
    ]


def _any_of(runs: Iterable[tuple[str, str]]) -> Any:
    return or_(*(and_(TaskInstance.dag_id == dag, TaskInstance.run_id == run) for dag, run in runs))


def notes_of(session: Session, tasks: Collection[TaskInstance], key: str) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    """Return the notes of tasks under one key, by the keys of the tasks."""
    if not tasks:
        return {}
    rows = session.execute(
        select(XComModel.dag_id, XComModel.run_id, XComModel.task_id, XComModel.map_index, XComModel.value).where(
            XComModel.key == key,
            XComModel.dag_id.in_({row.dag_id for row in tasks}),
            XComModel.run_id.in_({row.run_id for row in tasks}),
        )
    )
    return {(dag, run, task, index): value for dag, run, task, index, value in rows if isinstance(value, dict)}


def task_key(row: TaskInstance) -> tuple[str, str, str, int]:
    """Return the key of a task by which `notes_of` has its note."""
    return row.dag_id, row.run_id, row.task_id, row.map_index


def _task(row: TaskInstance, dags: Dags, **more: Any) -> Task:
    return Task(
        dags.by_id[row.dag_id].archive,
        *task_key(row),
        state=str(row.state),
        try_number=row.try_number,
        since=row.start_date or row.queued_dttm,
        ended=row.end_date if row.state == "failed" else None,
        **more,
    )


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
