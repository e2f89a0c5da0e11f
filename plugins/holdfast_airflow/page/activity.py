"""Tasks of archives in Airflow's database: those at work, those that wait, those that have failed."""

from __future__ import annotations

from dataclasses import dataclass
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
        """Return it as JSON."""
        return {
            "archive": self.archive,
            "dag_id": self.dag_id,
            "run_id": self.run_id,
            "task_id": self.task_id,
            "map_index": self.map_index,
            "state": self.state,
            "try_number": self.try_number,
            "since": self.since.isoformat() if self.since else None,
            "ended": self.ended.isoformat() if self.ended else None,
            "run": self.run,
            "sentence": self.sentence,
            "exit_code": self.exit_code,
            "runbook": self.runbook,
        }

    @property
    def runbook(self) -> str | None:
        """Return the name of the runbook for its failure, below docs/runbooks; None where there is none."""
        return runbook_for(operation_of(self.dag_id, self.archive), self.exit_code)


@dataclass(frozen=True)
class Dags:
    """The DAGs of archives.

    :param archives: by id of the DAG.
    :param paused: ids of those that have a schedule and are paused.
    """

    archives: Mapping[str, str]
    paused: frozenset[str]

    def of(self, archive: str) -> list[str]:
        """Return the ids of an archive's DAGs."""
        return sorted(dag for dag, name in self.archives.items() if name == archive)


def dags_of(session: Session, archives: Collection[str]) -> Dags:
    """Return the DAGs of these archives, by their tags."""
    own = aliased(DagTag)
    rows = session.execute(
        select(DagTag.dag_id, own.name, DagModel.is_paused, DagModel.timetable_summary)
        .join(own, own.dag_id == DagTag.dag_id)
        .join(DagModel, DagModel.dag_id == DagTag.dag_id)
        .where(DagTag.name == TAG, DagModel.is_stale.is_(False))
    ).all()
    found = {dag: tag for dag, tag, _, _ in rows if tag in archives and dag.endswith(f"_{tag}")}
    paused = {dag for dag, _, is_paused, schedule in rows if is_paused and schedule not in (None, "None", "null")}
    return Dags(found, frozenset(paused & found.keys()))


def active_tasks(session: Session, dags: Dags) -> list[Task]:
    """Return the tasks that are at work or wait, with their jobs' runs; two queries."""
    rows = session.execute(
        select(TaskInstance)
        .join(DagTag, and_(DagTag.dag_id == TaskInstance.dag_id, DagTag.name == TAG))
        .where(TaskInstance.state.in_(ACTIVE))
        .order_by(TaskInstance.queued_dttm)
    ).scalars()
    found = [row for row in rows if row.dag_id in dags.archives]
    notes = _notes(session, found, RUN)
    return [_task(row, dags, run=(notes.get(_key(row)) or {}).get("run")) for row in found]


def open_failures(session: Session, dags: Dags) -> list[Task]:
    """Return the failed tasks of DAGs whose newest finished run has failed, the newest first; three queries.

    A run that went well ends the failures before it.
    """
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
    runs = [(dag, run) for dag, run in failed if dag in dags.archives][:MOST_FAILURES]
    if not runs:
        return []
    rows = session.execute(
        select(TaskInstance)
        .where(TaskInstance.state == "failed", _any_of(runs))
        .order_by(TaskInstance.end_date.desc())
        .limit(MOST_FAILURES)
    )
    found = list(rows.scalars())
    notes, jobs = _notes(session, found, FAILURE), _notes(session, found, RUN)
    return [
        _task(
            row,
            dags,
            run=(jobs.get(_key(row)) or {}).get("run"),
            sentence=str(note.get("sentence", "")),
            exit_code=note.get("exit_code"),
        )
        for row in found
        for note in (notes.get(_key(row)) or {},)
    ]


def _any_of(runs: Iterable[tuple[str, str]]) -> Any:
    return or_(*(and_(TaskInstance.dag_id == dag, TaskInstance.run_id == run) for dag, run in runs))


def _notes(session: Session, tasks: Collection[TaskInstance], key: str) -> dict[tuple[Any, ...], Mapping[str, Any]]:
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


def _key(row: TaskInstance) -> tuple[Any, ...]:
    return row.dag_id, row.run_id, row.task_id, row.map_index


def _task(row: TaskInstance, dags: Dags, **more: Any) -> Task:
    return Task(
        archive=dags.archives[row.dag_id],
        dag_id=row.dag_id,
        run_id=row.run_id,
        task_id=row.task_id,
        map_index=row.map_index,
        state=str(row.state),
        try_number=row.try_number,
        since=row.start_date or row.queued_dttm,
        ended=row.end_date if row.state == "failed" else None,
        **more,
    )
