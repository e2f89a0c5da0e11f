"""Recovery of an archive's lost replicas, as an Airflow task."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from holdfast.common.errors import HoldfastError, exit_code_of, sentence
from holdfast.operations.requests.recovery import RecoveryRequest
from holdfast_airflow.arguments import Span, check_spans, request_of, span
from holdfast_airflow.exceptions import failure, in_airflow_terms
from holdfast_airflow.operators.job import ArchiveOperator
from holdfast_airflow.replicated import replicated
from locking import LockError
from locking.store import StoreError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from holdfast.replication.log.replicas import ReplicaRow
    from holdfast.replication.work.recovery import Recovered
    from holdfast_airflow.replicated import Replicated


class RecoverReplicasOperator(ArchiveOperator):
    """Operator that recovers an archive's lost replicas from the furthest one.

    It copies the files that are missing and, with `deep`, those that are not as they were written. A replica that fails
    does not keep others from being recovered; the task then fails with the first error. Killed, it goes on with what is
    there when it is run again. Where all are lost, a person has to say which one to go on from (`holdfast replica
    elect`): the task fails.

    Returns `recovered`: of each, `replica`, `from`, `index`, `files`, `bytes`, `kept` and `aside` (blocks that only it
    had, whose files stay).

    :param archive: a name in archives.yaml. (templated)
    :param lock_wait: how long to wait for other work on a replica, in the worker. (templated)
    """

    request_type = RecoveryRequest
    template_fields = (*ArchiveOperator.template_fields, "lock_wait")

    def __init__(self, *, lock_wait: Span = timedelta(minutes=10), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_spans(lock_wait=lock_wait)
        self.lock_wait = lock_wait

    def execute(self, context: Context) -> dict[str, Any]:
        recovered: list[dict[str, Any]] = []
        failed: list[Exception] = []
        with in_airflow_terms(), replicated(self.archive) as archive:
            for row in archive.rows():
                if not row.is_lost:
                    continue
                try:
                    made = self._recover(archive, row)
                except (HoldfastError, LockError, StoreError) as error:
                    self.log.error("replica %s is still lost: %s", row.name, sentence(error))
                    failed.append(error)
                    continue
                self.log.info(
                    "replica %s was rebuilt from %s: %s files copied, %s were there",
                    made.replica,
                    made.source,
                    made.files,
                    made.kept,
                )
                recovered.append(made.describe())
        if failed:
            raise failure(sentence(failed[0]), exit_code_of(failed[0]))
        return {"recovered": recovered}

    def _recover(self, archive: Replicated, row: ReplicaRow) -> Recovered:
        from holdfast.replication.work.recovery import recover

        request: RecoveryRequest = request_of(self, RecoveryRequest)
        return recover(
            archive.coordination,
            archive.log.archive,
            row.name,
            deep=request.deep,
            wait=span(self.lock_wait).total_seconds(),
            places=archive.places,
        )
