"""What an Airflow's files say of its failed tasks, for the report of a test that fails."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import sqlalchemy as sa

from demo.airflow import AirflowStandalone
from demo.airflow_api import log_line

_MOST = 5
_LOG_CHARACTERS = 4000
_ERRORS = 30

_FAILED = """
select dag_id, run_id, task_id, map_index, try_number, state, end_date from {table}
where state in ('failed', 'up_for_retry')
"""


def airflows_of(fixtures: Iterable[object]) -> list[AirflowStandalone]:
    """Return the Airflows among the fixtures of a test, and among the attributes `airflow` of these."""
    every = [each for fixture in fixtures for each in (fixture, getattr(fixture, "airflow", None))]
    return list({id(each): each for each in every if isinstance(each, AirflowStandalone)}.values())


def why_failed(airflow: AirflowStandalone) -> str:
    """Return the logs of the tries that have failed, the newest last, and the errors that Airflow itself has logged.

    They come from its database and files, since an Airflow in trouble may not answer.
    """
    errors = [line for line in _lines(airflow.log_file) if re.search(r"\[(error|critical) |Error: |locked", line)]
    return "\n".join([*_tries(airflow), "--- errors in Airflow's own log ---", *errors[-_ERRORS:]])


def _tries(airflow: AirflowStandalone) -> Iterator[str]:
    query = " union ".join(_FAILED.format(table=table) for table in ("task_instance", "task_instance_history"))
    engine = sa.create_engine(airflow.database)
    with engine.connect() as database:
        newest = f"select * from ({query}) tries order by end_date desc nulls last limit {_MOST}"
        rows = database.execute(sa.text(newest)).fetchall()
    engine.dispose()
    for dag, run, task, index, number, state, ended in reversed(rows):
        folder = airflow.home / "logs" / f"dag_id={dag}" / f"run_id={run}" / f"task_id={task}"
        path = folder / (f"map_index={index}" if index >= 0 else "") / f"attempt={number}.log"
        log = "\n".join(_told(line) for line in _lines(path)) or "it has no log"
        yield f"--- {dag}, run {run}, task {task}[{index}], try {number}: {state} at {ended} ---"
        yield log[-_LOG_CHARACTERS:]


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines() if path.exists() else []


def _told(line: str) -> str:
    try:
        return log_line(json.loads(line))
    except ValueError:
        return line
