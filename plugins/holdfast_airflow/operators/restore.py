"""Bring a database back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from holdfast.errors import UsageError
from holdfast_airflow.connections import database_address
from holdfast_airflow.operators.job import ArchiveJobOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.archive.runs import RunRecord
    from holdfast.config import ArchiveConfig
    from holdfast.sources.postgresql.address import Address
    from holdfast.storage import ObjectStore


class RestoreOperator(ArchiveJobOperator):
    """Restore a source of an archive into an empty database, and prove it equal to the archive.

    Returns `commit`, `restored_to`, `tables`, `rows` and `seconds`.

    :param target_conn_id: the Airflow connection to the database to write to, of type postgres. (templated)
    :param at: `latest`, a time (ISO 8601), or `commit:N`. A time that cannot be restored is refused with
        the nearest that can. (templated)
    """

    operation: ClassVar[str] = "restore"
    role: ClassVar[Literal["source", "target"]] = "target"
    template_fields: Sequence[str] = (*ArchiveJobOperator.template_fields, "target_conn_id", "at")

    def __init__(
        self,
        *,
        target_conn_id: str,
        at: str = "latest",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target_conn_id = target_conn_id
        self.at = at

    def database(self, archive: ArchiveConfig) -> tuple[str | None, Address]:
        """Return the source to restore, if one is named or there is only one, and the target."""
        if not self.target_conn_id:
            raise UsageError("say where to restore to: the id of an Airflow connection, in 'target_conn_id'")
        source = archive.source(self.source)[0] if archive.sources else self.source
        return source, database_address(self.target_conn_id)

    def arguments(self, archive: ArchiveConfig, source: str | None) -> Sequence[str]:
        """Return the moment."""
        return ["--at", self.at or "latest"]

    def summarise(self, store: ObjectStore, record: RunRecord) -> dict[str, Any]:
        """Return what the job, which has compared target and archive itself, found."""
        result = record.result or {}
        return {key: result.get(key) for key in ("commit", "restored_to", "tables", "rows", "seconds")}
