"""The run of a mark, for commands and tasks alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive
from holdfast.archive.format.document import iso
from holdfast.operations import marks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.config.archives_model import SourceConfig
    from holdfast.operations.archive_context import ArchiveContext
    from holdfast.operations.requests.mark import MarkRequest
    from holdfast.postgresql.connection.address import Address


def mark_source(
    replicas: Sequence[ArchiveContext], request: MarkRequest, source: SourceConfig, address: Address
) -> dict[str, Any]:
    """Set a mark in a source as archives.yaml has it, and return its summary.

    The parameters `source` and `address` are the source's settings and its address; the request has its name. Errors
    are those of `set_mark`.
    """
    stores = [replica.open() for replica in replicas]
    name = request.source or ""
    made = marks.set_mark(
        Archive.open(stores[0]),
        stores,
        address,
        name,
        request.name,
        tables=source.tables,
        exclude=source.exclude,
    )
    return {
        "mark": request.name,
        "source": name,
        "position": made.position,
        "at": iso(made.at),
        "schema_known": not made.why_unknown,
        "schema_note": made.why_unknown,
    }
