"""Bring one replica of an archive to the head of its update log."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from holdfast.config import GAP_AFTER
from holdfast_airflow.coordination import replicated
from holdfast_airflow.exceptions import in_airflow_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context


class SyncReplica(BaseOperator):
    """Execute what the update log has beyond a replica: fetch the files of each entry, and commit it.

    Files go from store to store through the worker, several at a time; what is there already is not fetched again. A
    replica that is lost is left to :class:`RecoverReplicas`, and the task fails.

    Where nobody has the files of an entry any more, the task fails until that has been known for `gap_after`; then the
    entry is given up, and `points` names the gap.

    Returns `replica`, `index` (of the last entry that it has), `entries`, `files` and `bytes` (that were fetched), and
    `given_up` (indexes of entries).

    :param archive: a name in archives.yaml. (templated)
    :param replica: the replica's name. (templated)
    :param gap_after: entries whose files nobody has had for so long are given up; None: only a person does that.
    :param lock_wait: how long to wait for whoever works on the replica, in the worker.
    """

    template_fields: Sequence[str] = ("archive", "replica")

    def __init__(
        self,
        *,
        archive: str,
        replica: str,
        gap_after: timedelta | None = GAP_AFTER,
        lock_wait: timedelta = timedelta(minutes=2),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.archive = archive
        self.replica = replica
        self.gap_after = gap_after
        self.lock_wait = lock_wait

    def execute(self, context: Context) -> dict[str, Any]:
        """Sync it and return what was done."""
        from holdfast.replication.replicas import replica
        from holdfast.replication.upkeep import sync_replica

        with in_airflow_terms(), replicated(self.archive) as found:
            row = found.coordination.run(lambda c: replica(c, found.log.archive, self.replica))
            wait = self.lock_wait.total_seconds()
            done = sync_replica(
                found.coordination,
                found.log.archive,
                row,
                wait=wait,
                gap_after=self.gap_after,
                places=found.places,
            )
        for index in done.given_up:
            self.log.error(
                "entry %s of the update log is given up: no replica had its files: 'holdfast points' names the gap",
                index,
            )
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
            "given_up": list(done.given_up),
        }
