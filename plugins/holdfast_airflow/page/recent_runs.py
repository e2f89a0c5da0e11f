"""Recent backups and drills, by Airflow's database and the archive."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from airflow.models.taskinstance import TaskInstance
from sqlalchemy import func, select
from sqlalchemy.orm import aliased

from holdfast.archive.format.document import iso
from holdfast_airflow.notes import FAILURE, RUN
from holdfast_airflow.page.activity import notes_of, task_key
from holdfast_airflow.page.verdicts import source_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.state import State
    from holdfast_airflow.page.activity import Dag

DAYS: Final = 30

MOST: Final = 20
"""Backups of a source that are listed."""

_BACKUPS: Final = ("backup", "changes")
_FINISHED: Final = ("success", "failed")
_RESULT: Final = "return_value"


def recent_days(
    session: Session, dags: Iterable[Dag], sources: Collection[str], now: datetime
) -> dict[str, list[dict[str, Any]]]:
    """Count each source's `good` and `failed` backups and drills of 30 days in UTC; one query."""
    ended = func.date(TaskInstance.end_date)
    rows = session.execute(
        select(TaskInstance.task_id, ended, TaskInstance.state, func.count())
        .where(
            TaskInstance.dag_id.in_(_ids(dags, *_BACKUPS, "restore_drill")),
            TaskInstance.state.in_(_FINISHED),
            TaskInstance.end_date > now - timedelta(days=DAYS),
        )
        .group_by(TaskInstance.task_id, ended, TaskInstance.state)
    )
    counts = Counter[tuple[str, str, str]]()
    for task_id, day, state, number in rows:
        counts[source_of(task_id, sources), str(day), str(state)] += number
    days = [f"{now - timedelta(days=ago):%Y-%m-%d}" for ago in reversed(range(DAYS))]
    return {
        source: [
            {"day": day, "good": counts[source, day, "success"], "failed": counts[source, day, "failed"]}
            for day in days
        ]
        for source in sources
    }


def recent_backups(
    session: Session, dags: Iterable[Dag], sources: Collection[str], now: datetime
) -> dict[str, list[dict[str, Any]]]:
    """Return the newest backups of each source that Airflow has made, failed ones too; four queries.

    `ended` is when one at work began. What is not known is None.
    """
    newest = (
        func.row_number()
        .over(partition_by=TaskInstance.task_id, order_by=TaskInstance.start_date.desc())
        .label("newest")
    )
    ranked = (
        select(TaskInstance, newest)
        .where(
            TaskInstance.dag_id.in_(_ids(dags, *_BACKUPS)),
            TaskInstance.task_id.in_([f"backup_{source}" for source in sources]),
            TaskInstance.start_date > now - timedelta(days=DAYS),
            TaskInstance.state.is_not(None),
            TaskInstance.state != "skipped",
        )
        .subquery()
    )
    latest = aliased(TaskInstance, ranked)
    tasks = list(session.scalars(select(latest).where(ranked.c.newest <= MOST).order_by(ranked.c.start_date.desc())))
    runs, results, failures = (notes_of(session, tasks, key) for key in (RUN, _RESULT, FAILURE))
    backups = defaultdict[str, list[dict[str, Any]]](list)
    for task in tasks:
        key = task_key(task)
        result, failure = results.get(key) or {}, failures.get(key) or {}
        backups[task.task_id.removeprefix("backup_")].append(
            {
                "state": str(task.state),
                "ended": iso(task.end_date or task.start_date or now),
                "seconds": task.duration if task.end_date else None,
                **{name: result.get(name) for name in ("kind", "rows", "bytes", "commit")},
                "sentence": str(failure.get("sentence", "")) if str(task.state) == "failed" else "",
                "run": (runs.get(key) or {}).get("run"),
                "task": {name: getattr(task, name) for name in ("dag_id", "run_id", "task_id", "map_index")},
            }
        )
    return {source: backups[source] for source in sources}


def with_blocks(backups: Mapping[str, Sequence[Mapping[str, Any]]], state: State) -> dict[str, list[dict[str, Any]]]:
    """Add to the backups of Airflow's tasks those by a command, or of earlier times."""
    by_source = defaultdict[str, list["Placed"]](list)
    for placed in state.blocks.values():
        if not placed.head.parts and placed.head.after is None:  # those were made of what was here
            by_source[placed.source].append(placed)
    newest = {}
    for source in {*backups, *by_source}:
        recorded = [dict(backup) for backup in backups.get(source, ())]
        runs = {backup["run"] for backup in recorded}
        others = [_of_blocks(list(blocks)) for run, blocks in _by_run(by_source[source]) if run not in runs]
        newest[source] = sorted([*recorded, *others], key=lambda backup: str(backup["ended"]), reverse=True)[:MOST]
    return newest


def _by_run(blocks: Iterable[Placed]) -> Iterable[tuple[str, Iterable[Placed]]]:
    newest = sorted(blocks, key=lambda placed: placed.number)[-10 * MOST :]
    return groupby(newest, key=lambda placed: placed.head.run)


def _of_blocks(blocks: Sequence[Placed]) -> dict[str, Any]:
    last = max(blocks, key=lambda placed: placed.number)
    return {
        "state": "success",
        "ended": iso(last.head.covers.to_time),
        "seconds": None,
        "kind": "full" if last.head.kind == "snapshot" else "changes",
        "rows": sum(placed.rows for placed in blocks),
        "bytes": sum(placed.size for placed in blocks),
        "commit": last.number,
        "sentence": "",
        "run": last.head.run,
        "task": None,
    }


def _ids(dags: Iterable[Dag], *operations: str) -> list[str]:
    return [dag.dag_id for dag in dags if dag.operation in operations]
