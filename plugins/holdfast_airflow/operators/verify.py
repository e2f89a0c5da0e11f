"""Verification of an archive, as an Airflow task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from holdfast.common.errors import DamagedError, HoldfastError
from holdfast.operations.requests.verification import VerificationRequest
from holdfast_airflow.arguments import request_of
from holdfast_airflow.connections import find_archive_or_connection
from holdfast_airflow.operators.job import ArchiveJobOperator
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.operations.requests.base import Request
    from holdfast.storage import ObjectStore

_MOST_NAMED = 3


class VerifyOperator(ArchiveJobOperator):
    """Operator that verifies the commits and files of an archive.

    Each run checks the commits since the last one and the sizes of the files that they brought. A deep one also reads
    those files that were not read for longest, and what was damaged before: over days it reads all. Damage fails
    the task, without another try, and names what it costs; nothing is changed. A replica whose files are missing, or
    not what was written, is marked as lost, so that :class:`RecoverReplicasOperator` fetches them from another one.
    Returns `commits`, `blocks`, `files` and `bytes` that were looked at, `deep`, and `read_since` (every file was read,
    or made, after that moment).

    """

    request_type = VerificationRequest
    request_defaults: ClassVar[Mapping[str, Any]] = {"deep": True}

    def request(self, archive: ArchiveConfig, source: str | None) -> Request:
        made: VerificationRequest = request_of(self, VerificationRequest)
        if not made.deep:
            return VerificationRequest(new=True)
        section = archive.verification
        return made.with_values(new=True).filled(within=section.deep_within, budget=section.budget)

    def _give_up_replica(self, store: ObjectStore, damaged: int) -> None:
        from holdfast.archive import Archive
        from holdfast.replication.work.sync import report_damage

        try:
            archive = Archive.open(store)
            if archive.state.log is None:
                return
            resolved = self.context_of(find_archive_or_connection(self.archive))
            report_damage(archive, damaged, address=resolved.coordination)
            self.log.warning(
                "replica %s is marked as lost: its recovery fetches what it lacks", archive.state.log.replica
            )
        except (HoldfastError, StoreError) as error:
            self.log.error("the replica is not marked as lost: %s", error)

    def summarise(self, store: ObjectStore, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
        if damage := result.get("damage"):
            if replaceable := sum(bool(cost.get("replaceable")) for cost in result.get("costs", ())):
                self._give_up_replica(store, replaceable)
            more = f"; and {len(damage) - _MOST_NAMED} more, in the log" if damage[_MOST_NAMED:] else ""
            raise DamagedError(f"damaged or missing: {'; '.join(damage[:_MOST_NAMED])}{more}")
        return {key: result.get(key) for key in ("commits", "blocks", "files", "bytes", "deep", "read_since")}
