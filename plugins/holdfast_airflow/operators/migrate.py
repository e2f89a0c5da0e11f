"""Migration of an archive's format, as an Airflow task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.operations.requests.migration import MigrationRequest
from holdfast_airflow.operators.job import ArchiveJobOperator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.storage import ObjectStore

NEWEST_FORMAT = 2
"""The newest one. The archive's own module says it, too, but takes a second to import, at every parse of a DAG."""


class MigrateOperator(ArchiveJobOperator):
    """Operator that lifts an archive to a newer format.

    Each step is one commit, and the restore points stay as they are. It waits until no job works with the archive, and
    keeps all others out meanwhile. Releases that do not know the format refuse the archive from then on. Returns
    `archive`, `from`, `format` and `commits`.

    """

    request_type = MigrationRequest

    def summarise(self, store: ObjectStore, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
        return {key: result.get(key) for key in ("archive", "from", "format", "commits")}
