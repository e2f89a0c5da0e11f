"""Records of tables in a commit, from the records of their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.archive.format.document import TableRecord
from holdfast.postgresql.values.content_hash import ContentHash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.archive.format.document import FileRecord
    from holdfast.postgresql.catalog.table import Table


def table_record(table: Table, files: Sequence[FileRecord]) -> TableRecord:
    """Return a table's record: its rows and its content hash are those of its files together."""
    total = sum((ContentHash.parse(file.digest or "0:0") for file in files), ContentHash(0, 0))
    return TableRecord(
        id=str(table.oid),
        table_schema=table.table_schema,
        name=table.name,
        rows=total.rows,
        digest=str(total),
        files=tuple(files),
    )
