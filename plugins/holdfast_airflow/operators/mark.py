"""Mark at a position of a source's log, as an Airflow task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from holdfast.postgresql.connection.address import Address
from holdfast_airflow.connections import database_address, find_archive_or_connection
from holdfast_airflow.exceptions import in_airflow_terms
from holdfast_airflow.links import ArchiveLink
from locking.one_line import LogsLines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context


class MarkOperator(LogsLines, BaseOperator):
    """Operator that names the current position of a source as a restore point.

    The next incremental backup brings the mark into the archive. Definitions are read with it, so that what a migration
    does next takes nothing from this moment. It takes no lock.

    Returns `mark`, `source`, `position` (in the source's log), `at`, and `schema_note`: why it does not know the
    definitions, "" where it does.

    :param archive: a name in archives.yaml. (templated)
    :param name: what the moment is called, such as `before 4.2`. (templated)
    :param source: the source in the archive; not needed where there is only one. (templated)
    :param source_conn_id: the Airflow connection to it; without it, what archives.yaml says. (templated)
    """

    operator_extra_links = (ArchiveLink(),)

    template_fields: Sequence[str] = ("archive", "name", "source", "source_conn_id")

    def __init__(
        self, *, archive: str, name: str, source: str | None = None, source_conn_id: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.archive = archive
        self.name = name
        self.source = source
        self.source_conn_id = source_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Set the mark, and return its position and time."""
        from holdfast.archive import Archive
        from holdfast.archive.format.document import iso
        from holdfast.operations.marks import set_mark
        from holdfast.storage import open_store

        with in_airflow_terms():
            archive = find_archive_or_connection(self.archive)
            source, configured = archive.source(self.source)
            conn_id = self.source_conn_id or configured.connection
            address = database_address(conn_id) if conn_id else Address.parse(configured.url or "")
            urls = list((archive.replicas or {}).values()) or [archive.place()]
            stores = [open_store(url, archive.key, archive.signs) for url in urls]
            opened = Archive.open(stores[0])
            done = set_mark(
                opened,
                stores,
                address,
                source,
                self.name,
                tables=configured.tables,
                exclude=configured.exclude,
            )
        self.log.info("marked %r in %s at %s, %s", self.name, source, done.position, iso(done.at))
        if done.why_unknown:
            self.log.warning("what the definitions were is not known with it: %s", done.why_unknown)
        return {
            "mark": self.name,
            "source": source,
            "position": done.position,
            "at": iso(done.at),
            "schema_note": done.why_unknown,
        }
