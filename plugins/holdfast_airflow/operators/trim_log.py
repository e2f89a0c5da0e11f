"""Trimming of an archive's update log, as an Airflow task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from holdfast_airflow.coordination import replicated
from holdfast_airflow.exceptions import in_airflow_terms
from holdfast_airflow.links import ArchiveLink
from locking.one_line import LogsLines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

MIN_KEEP = 100
MAX_KEEP = 10_000


class TrimLogOperator(LogsLines, BaseOperator):
    """Operator that removes the log entries that every active replica has executed.

    A replica that was away for too long becomes lost by it. Never all replicas are lost: then the task fails, and
    changes nothing.

    Returns `log_start` (index of the oldest entry that is kept), `removed`, `lost` (replicas that are lost by it) and
    `waits_for` (replicas that keep entries from going).

    :param archive: a name in archives.yaml. (templated)
    :param min_keep: so many of the newest entries stay in any case. (templated)
    :param max_keep: so many are kept for a replica that is away; then it becomes lost. (templated)
    """

    operator_extra_links = (ArchiveLink(),)

    template_fields: Sequence[str] = ("archive", "min_keep", "max_keep")

    def __init__(
        self, *, archive: str, min_keep: int | str = MIN_KEEP, max_keep: int | str = MAX_KEEP, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.archive = archive
        self.min_keep = min_keep
        self.max_keep = max_keep

    def execute(self, context: Context) -> dict[str, Any]:
        """Trim the update log and return a summary."""
        from holdfast.replication.log.trimming import trim

        with in_airflow_terms(), replicated(self.archive) as found:
            done = trim(
                found.coordination,
                found.log.archive,
                min_keep=int(self.min_keep),
                max_keep=int(self.max_keep),
                places=found.places,
            )
        self.log.info("%s entries removed; the log begins at %s", done.removed, done.start)
        for name in done.lost:
            self.log.warning("replica %s is lost by it: it was away too long", name)
        return {
            "log_start": done.start,
            "removed": done.removed,
            "lost": list(done.lost),
            "waits_for": list(done.waits_for),
            "not_asked": [each.describe() for each in done.not_asked],
        }


TrimLog = TrimLogOperator
"""The earlier name."""
