"""Mark at a position of a source's log, as an Airflow task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.operations.archive_context import ArchiveContext
from holdfast.operations.requests.mark import MarkRequest
from holdfast_airflow.arguments import request_of
from holdfast_airflow.connections import find_archive_or_connection, source_address
from holdfast_airflow.exceptions import in_airflow_terms
from holdfast_airflow.operators.job import ArchiveOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class MarkOperator(ArchiveOperator):
    """Operator that names the current position of a source as a restore point.

    The next incremental backup brings the mark into the archive. Definitions are read with it, so that what a migration
    does next takes nothing from this moment. It takes no lock.

    Returns `mark`, `source`, `position` (in the source's log), `at`, and `schema_note`: why it does not know the
    definitions, "" where it does.

    :param archive: a name in archives.yaml. (templated)
    :param source_conn_id: the Airflow connection to it; without it, what archives.yaml says. (templated)
    """

    request_type = MarkRequest
    template_fields = (*ArchiveOperator.template_fields, "source_conn_id")

    def __init__(self, *, source_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.source_conn_id = source_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        from holdfast.operations.marks import mark_source

        with in_airflow_terms():
            request: MarkRequest = request_of(self, MarkRequest)
            settings = find_archive_or_connection(self.archive)
            name, source = settings.source(request.source)
            address = source_address(source, self.source_conn_id)
            replicas = ArchiveContext.resolve(settings).replicas
            summary = mark_source(replicas, request.with_values(source=name), source, address)
        del summary["schema_known"]  # it is whether there is a note
        self.log.info("marked %r in %s at %s, %s", request.name, name, summary["position"], summary["at"])
        if summary["schema_note"]:
            self.log.warning("what the definitions were is not known with it: %s", summary["schema_note"])
        return summary
