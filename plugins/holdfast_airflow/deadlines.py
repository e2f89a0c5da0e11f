"""Deadlines of an archive's runs: Airflow finds the ones that are missed, and the archive's `alerts` report them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from holdfast.common.units import parse_span
from holdfast.config.archives_yaml import find_archive
from holdfast_airflow.notifications.alerts import notifiers, notify
from holdfast_airflow.notifications.message import MISSED, FailureMessage
from locking.one_line import line_logger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.config.archives_model import ArchiveConfig

log = line_logger(__name__)


def deadline_of(name: str, archive: ArchiveConfig, operation: str) -> DeadlineAlert | None:
    """Return the deadline of an operation's runs, from when they are queued; None for none.

    What is stored with the DAG names the archive alone: notifiers may have arguments that not every reader of Airflow's
    database should see.
    """
    within: str | None = getattr(archive.deadline, operation)
    if within is None:
        return None
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=parse_span(within),
        callback=AsyncCallback(tell_missed, {"archive": name, "within": within}),
        name=f"done within {within}",
    )


async def tell_missed(*, archive: str, within: str, context: Mapping[str, Any]) -> None:
    """Notify of a missed deadline; Airflow's triggerer calls this.

    :param context: as Airflow gives it: `dag_run`, as its REST API describes one, and `deadline`.
    :raises ExceptionGroup: of notifiers that failed; the others have notified.
    """
    # In a thread: most notifiers know `notify` only, which blocks.
    await asyncio.to_thread(_notify, archive, within, context["dag_run"])


def _notify(archive: str, within: str, dag_run: Mapping[str, Any]) -> None:
    run = SimpleNamespace(**dag_run, run_id=dag_run["dag_run_id"])  # as Airflow's API calls it, and as notifiers do
    missed = f"run {run.run_id} of {run.dag_id} is not done {within} after it was queued"
    log.warning("%s", missed)
    context = _context(archive, run, missed)
    notify(notifiers([find_archive(archive)]), FailureMessage.of(context), context)


def _context(archive: str, run: SimpleNamespace, missed: str) -> dict[str, Any]:
    """Return what templates of notifiers ask for. A deadline has no task, so its words stand in for one."""
    task = SimpleNamespace(
        dag_id=run.dag_id, run_id=run.run_id, task_id="deadline", state=MISSED, map_index=-1, archive=archive
    )
    words = {"ti": task, "task_instance": task, "task": task, "exception": missed}
    return {"dag": DAG(run.dag_id, schedule=None), "dag_run": run, "run_id": run.run_id, **words}
