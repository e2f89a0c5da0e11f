"""Compaction of an archive, as an Airflow task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.operations.requests.compaction import CompactionRequest
from holdfast_airflow.arguments import request_of
from holdfast_airflow.operators.job import SourceJobOperator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.operations.requests.base import Request
    from holdfast.storage import ObjectStore


class CompactOperator(SourceJobOperator):
    """Operator that joins small blocks of changes into few.

    Restores then read fewer files, and every restore point stays as it is. Which blocks are worth it is said in
    archives.yaml, under `compaction`. Where none is, nothing is done. Where there are replicas, the one that it is done
    through leads meanwhile, and the others follow at their next sync. Returns `commit` (the newest that was made, or
    None), `blocks_removed`, `blocks_added`, `consolidated` (the sources that a full snapshot was made of),
    `not_consolidated` (sources with the reason), `rows`, `bytes` and `seconds`.

    :param source: only this one's backups; without it, those of all. (templated)
    """

    request_type = CompactionRequest

    def request(self, archive: ArchiveConfig, source: str | None) -> Request:
        made: CompactionRequest = request_of(self, CompactionRequest)
        return made.with_values(source=source).configured(archive.compaction)

    def summarise(self, store: ObjectStore, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
        summary = {key: result.get(key) for key in ("commit", "blocks_removed", "rows", "bytes", "seconds")}
        made = result.get("consolidated", ())
        return summary | {
            "blocks_added": len(result.get("joined", ())) + len(made),
            "consolidated": [block["source"] for block in made],
            "not_consolidated": dict(result.get("not_consolidated", {})),
        }
