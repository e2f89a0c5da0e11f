"""Sync of one replica with its archive's update log, as an Airflow task."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.common.cleanup import cleanup
from holdfast.common.errors import HoldfastError, sentence
from holdfast.common.words import is_yes
from holdfast.config.archives_model import GAP_AFTER
from holdfast.operations.requests.sync import SyncRequest
from holdfast_airflow.arguments import Span, span
from holdfast_airflow.deferral import check_event, deadline_in
from holdfast_airflow.exceptions import in_airflow_terms
from holdfast_airflow.operators.job import ArchiveJobOperator
from holdfast_airflow.replicated import replicated
from holdfast_airflow.telemetry.metrics import job_metrics, send_replica_metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from holdfast.replication.work.replica import Synced
    from holdfast.storage import ObjectStore
    from holdfast_airflow.replicated import Replicated
    from holdfast_airflow.telemetry.metrics import JobMetrics


class SyncReplicaOperator(ArchiveJobOperator):
    """Operator that brings a replica to the head of its update log.

    It fetches the files of each missing entry, and commits the entry. Files go from store to store through the worker,
    several at a time, or through the tasks of a Spark job; what is there already is not fetched again. A replica that
    is lost is left to :class:`RecoverReplicasOperator`, and the task fails.

    Where no replica has the files of an entry any more, the task fails until that has been so for `gap_after`; then the
    entry is given up, and `points` names the gap.

    Returns `replica`, `index` (of the last entry that it has), `entries`, `files` and `bytes` (that were fetched), and
    `given_up` (indexes of entries).

    :param archive: a name in archives.yaml. (templated)
    :param replica: the replica's name. (templated)
    :param spark: spread the copies over Spark, for a replica that lacks much. (templated)
    :param gap_after: entries whose files no replica has had for so long are given up; None: only a person does that.
    :param lock_wait: how long to wait for other work on the replica: in the worker, or, with `spark`, deferred.
    """

    request_type = SyncRequest
    template_fields = (*ArchiveJobOperator.template_fields, "spark")

    def __init__(
        self,
        *,
        archive: str,
        replica: str,
        spark: bool | str = False,
        gap_after: timedelta | None = GAP_AFTER,
        lock_wait: Span = timedelta(minutes=2),
        **kwargs: Any,
    ) -> None:
        super().__init__(archive=archive, replica=replica, lock_wait=lock_wait, **kwargs)
        self.spark = spark
        self.gap_after = gap_after

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        return self._sync(context, deadline_in(span(self.lock_wait)))

    def execute_when_free(self, context: Context, event: Mapping[str, Any] | None, deadline: str) -> dict[str, Any]:
        return self._sync(context, check_event(event, deadline))

    def summarise(self, store: ObjectStore, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
        return dict(result)

    def _sync(self, context: Context, deadline: datetime) -> dict[str, Any]:
        from holdfast.replication.log.replicas import replica
        from holdfast.replication.work.sync import sync_replica

        with (
            job_metrics(self.archive, self.measured_as) as metrics,
            in_airflow_terms(),
            replicated(self.archive) as archive,
            cleanup(partial(self._send_lag, archive)),
        ):
            metrics.began = time.monotonic()
            row = archive.coordination.run(lambda c: replica(c, archive.log.archive, self.replica or ""))
            synced = sync_replica(
                archive.coordination,
                archive.log.archive,
                row,
                wait=span(self.lock_wait).total_seconds(),
                gap_after=self.gap_after,
                places=archive.places,
                execute=partial(self._in_spark, context, deadline, metrics) if is_yes(self.spark) else None,
            )
            metrics.summary = synced.describe()
        for index in synced.given_up:
            self.log.error(
                "entry %s of the update log is given up: no replica had its files: 'holdfast points' names the gap",
                index,
            )
        self.log.info(
            "replica %s is at entry %s: %s executed, %s files fetched",
            synced.replica,
            synced.index,
            synced.entries,
            synced.files,
        )
        return synced.describe()

    def _send_lag(self, archive: Replicated) -> None:
        """Send how far all replicas are behind: that of one whose own task fails or hangs, too."""
        from holdfast.replication.log.status import status

        try:
            (log_status,) = archive.coordination.run(lambda c: status(c, archive.log.archive))
        except HoldfastError as error:
            self.log.warning("how far replicas are behind is not measured: %s", sentence(error))
        else:
            send_replica_metrics(self.archive, log_status.describe()["replicas"])

    def _in_spark(self, context: Context, deadline: datetime, metrics: JobMetrics, place: ObjectStore) -> Synced:
        from holdfast.replication.work.sync import sync_of_result

        return sync_of_result(self._under_locks(context, deadline, metrics))
