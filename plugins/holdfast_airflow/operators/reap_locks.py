"""Removal of abandoned locks, as an Airflow task."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from holdfast.archive.locks.owner_status import Word
from holdfast.operations.archive_context import ArchiveContext
from holdfast_airflow.connections import find_archive_or_connection
from holdfast_airflow.exceptions import in_airflow_terms
from holdfast_airflow.operators.job import ArchiveOperator
from holdfast_airflow.owners import TaskSdk

if TYPE_CHECKING:
    from airflow.sdk import Context


INTERVAL: Final = timedelta(minutes=10)
"""Between two runs of an archive's reaper."""

APART: Final = timedelta(minutes=2)
"""Between two runs of the reapers of all archives, on average: each costs Airflow seconds of CPU, also in vain."""


def reaper_interval(archives: int) -> timedelta:
    """Return how often each of so many reapers runs."""
    return max(INTERVAL, archives * APART)


class ReapLocksOperator(ArchiveOperator):
    """Operator that ends the abandoned locks of an archive.

    These are past their lease and grace, or of a process proved gone. A lock whose lease is over goes without its grace
    where this Airflow says that its task or run has ended.

    Nothing depends on it, since a job that takes a lock does the same; it removes the locks that no other job meets.
    A healthy lock never goes.

    Returns what was ended: `resource`, `mode`, `txn`, `purpose` and `reason` of each.

    :param archive: a name in archives.yaml, or a URL. (templated)
    :param replica: which of its replicas; without it, the first one in archives.yaml. (templated)
    """

    template_fields = (*ArchiveOperator.template_fields, "replica")

    def __init__(self, *, replica: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.replica = replica

    def execute(self, context: Context) -> list[dict[str, str]]:
        from locking import reap

        word = Word(TaskSdk(context["ti"]))
        with in_airflow_terms():
            settings = find_archive_or_connection(self.archive)
            store = ArchiveContext.resolve(settings, settings.location(self.replica)).open()
            ended = reap(store, finished=word.has_finished)
        for reaped in ended:
            self.log.info("ended: %s: %s", reaped.lock.describe(), reaped.reason)
        return [
            {
                "resource": reaped.lock.resource,
                "mode": reaped.lock.mode,
                "txn": reaped.lock.txn,
                "purpose": reaped.lock.purpose,
                "reason": reaped.reason,
            }
            for reaped in ended
        ]
