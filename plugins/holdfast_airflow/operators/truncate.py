"""Truncation of an archive, as an Airflow task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.operations.requests.truncation import TruncationRequest
from holdfast_airflow.arguments import request_of
from holdfast_airflow.operators.job import SourceJobOperator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.operations.requests.base import Request
    from holdfast.storage import ObjectStore


class TruncateOperator(SourceJobOperator):
    """Operator that removes the restore points that no rule and no hold keeps.

    The newest backups always stay. It makes one commit, or none where nothing is to go. Files are deleted later, by
    :class:`VacuumOperator`, once the grace is over. Where there are replicas, the one that it is done through leads
    meanwhile, and the others follow at their next sync. Returns `commit` (None where none was made), `keep`,
    `blocks_removed`, `bytes`, `dry_run` and `sources`, each with how many points stay and go and what can be restored
    before and after.

    :param source: only this one's restore points; without it, those of all. (templated)
    """

    request_type = TruncationRequest

    def request(self, archive: ArchiveConfig, source: str | None) -> Request:
        from holdfast.operations.plans import rules_of

        made: TruncationRequest = request_of(self, TruncationRequest)
        made = made.with_values(source=source).filled(keep=tuple(archive.keep.rules()))
        rules_of(made)
        return made

    def summarise(self, store: ObjectStore, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
        keys = ("commit", "keep", "blocks_removed", "bytes", "dry_run", "sources")
        return {key: result.get(key) for key in keys}
