"""Bring one replica of an archive to the head of its update log."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from holdfast_airflow.coordination import replicated
from holdfast_airflow.exceptions import in_airflow_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context


class SyncReplica(BaseOperator):
    """Execute what the update log has beyond a replica: fetch the files of each entry, and commit it.

    Files go from store to store through the worker, several at a time; what is there already is not fetched again. A
    replica that is lost is left to :class:`RecoverReplicas`, and the task fails.

    Returns `replica`, `index` (of the last entry that it has), `entries`, `files` and `bytes` (that were fetched).

    :param archive: a name in archives.yaml. (templated)
    :param replica: the replica's name. (templated)
    :param lock_wait: how long to wait for whoever works on the replica, in the worker.
    """

    template_fields: Sequence[str] = ("archive", "replica")

    def __init__(
        self, *, archive: str, replica: str, lock_wait: timedelta = timedelta(minutes=2), **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.archive = archive
        self.replica = replica
        self.lock_wait = lock_wait

    def execute(self, context: Context) -> dict[str, Any]:
        """Sync it and return what was done."""
        from holdfast.replication.replicas import replica
        from holdfast.replication.upkeep import sync_replica

        with in_airflow_terms(), replicated(self.archive) as found:
            row = found.coordination.run(lambda c: replica(c, found.log.archive, self.replica))
            wait = self.lock_wait.total_seconds()
            done = sync_replica(found.coordination, found.log.archive, row, wait=wait, places=found.places)
        self.log.info(
            "replica %s is at entry %s: %s executed, %s files fetched",
            done.replica,
            done.index,
            done.entries,
            done.files,
        )
        return {
            "replica": done.replica,
            "index": done.index,
            "entries": done.entries,
            "files": done.files,
            "bytes": done.size,
        }
