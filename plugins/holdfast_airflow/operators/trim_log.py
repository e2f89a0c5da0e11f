"""Trimming of an archive's update log, as an Airflow task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.operations.requests.trim import TrimRequest
from holdfast_airflow.arguments import request_of
from holdfast_airflow.exceptions import in_airflow_terms
from holdfast_airflow.operators.job import ArchiveOperator
from holdfast_airflow.replicated import replicated

if TYPE_CHECKING:
    from airflow.sdk import Context


class TrimLogOperator(ArchiveOperator):
    """Operator that removes the log entries that every active replica has executed.

    A replica that was away for too long becomes lost by it. Never all replicas are lost: then the task fails, and
    changes nothing.

    Returns `log_start` (index of the oldest entry that is kept), `removed`, `lost` (replicas that are lost by it) and
    `waits_for` (replicas that keep entries from going).

    :param archive: a name in archives.yaml. (templated)
    """

    request_type = TrimRequest

    def execute(self, context: Context) -> dict[str, Any]:
        from holdfast.replication.log.trimming import trim

        with in_airflow_terms(), replicated(self.archive) as archive:
            request: TrimRequest = request_of(self, TrimRequest)
            trimmed = trim(
                archive.coordination,
                archive.log.archive,
                min_keep=request.min_keep,
                max_keep=request.max_keep,
                places=archive.places,
            )
        self.log.info("%s entries removed; the log begins at %s", trimmed.removed, trimmed.start)
        for name in trimmed.lost:
            self.log.warning("replica %s is lost by it: it was away too long", name)
        return {
            "log_start": trimmed.start,
            "removed": trimmed.removed,
            "lost": list(trimmed.lost),
            "waits_for": list(trimmed.waits_for),
            "not_asked": [replica.describe() for replica in trimmed.not_asked],
        }
