"""Sensor that waits until a replica has what the others have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.common.errors import DamagedError, UsageError
from holdfast.common.units import parse_span
from holdfast.common.words import human_span
from holdfast_airflow.exceptions import in_airflow_terms
from holdfast_airflow.replicated import replicated
from holdfast_airflow.sensors.deferrable import DeferrableSensor

if TYPE_CHECKING:
    from airflow.sdk import Context


class ReplicaCaughtUpSensor(DeferrableSensor):
    """Sensor that waits until a replica has executed the update log.

    It asks the coordination store, and not the replica. It fails where the replica is lost: `RecoverReplicasOperator`
    brings that back.

    :param archive: a name in archives.yaml, which says `replicas` there. (templated)
    :param replica: its name. (templated)
    :param within: the first entry that it lacks may be so old, such as `15min`; without it, it may lack none.
        (templated)
    """

    template_fields = ("archive", "replica", "within")

    def __init__(self, *, archive: str, replica: str, within: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.archive = archive
        self.replica = replica
        self.within = within

    def poke(self, context: Context) -> bool:
        from holdfast.replication.log.status import status

        with in_airflow_terms(), replicated(self.archive) as asked:
            (log_status,) = asked.coordination.run(lambda connection: status(connection, asked.log.archive))
            rows = {replica.row.name: replica for replica in log_status.replicas}
            if self.replica not in rows:
                raise UsageError(f"{self.archive} has no replica {self.replica!r}; it has {', '.join(rows)}")
            one = rows[self.replica]
            if one.row.is_lost:
                raise DamagedError(f"replica {self.replica} of {self.archive} is lost: {one.row.lost_reason}")
            behind = f"{one.entries} entries behind, for {human_span(one.seconds)}" if one.entries else "up to date"
            self.log.info("replica %s of %s is %s", self.replica, self.archive, behind)
            return not one.entries or (
                self.within is not None and one.seconds <= parse_span(self.within).total_seconds()
            )
