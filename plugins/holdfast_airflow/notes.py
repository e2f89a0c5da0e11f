"""Notes of tasks for the page: XComs with what Airflow itself does not keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import get_current_context

from locking.one_line import line_logger

if TYPE_CHECKING:
    from collections.abc import Mapping

log = line_logger(__name__)

FAILURE = "holdfast_failure"
"""Note on a failed task: `sentence` and `exit_code`."""

RUN = "holdfast_run"
"""Note on a task that has started a job: `run`, `archive` (its name, or URL) and `url` of the place it works on."""


def leave_note(key: str, value: Mapping[str, object]) -> None:
    """Leave a note on the running task, if one runs. All who may read its XComs see it."""
    try:
        task = get_current_context()["ti"]
    except RuntimeError:  # no task runs, as in a trigger or the test button of a connection
        return
    try:
        task.xcom_push(key=key, value=dict(value))
    except Exception as error:  # noqa: BLE001 - the task goes on where Airflow does not take it
        log.warning("the page will not show %s of this task: %s", key, error)
