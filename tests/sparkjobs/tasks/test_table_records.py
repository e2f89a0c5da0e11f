"""A table's record in a commit is the sum of its files."""

from __future__ import annotations

import pytest

from holdfast.archive.format.document import FileRecord
from sparkjobs.tasks.table_records import table_record
from tests.support.databases.records import column, table


def file(name: str, digest: str | None) -> FileRecord:
    return FileRecord(path=f"data/{name}", size=1, sha256="0" * 64, digest=digest or "")


@pytest.mark.parametrize(
    ("digests", "rows", "total"), [([], 0, "0:0"), (["3:10"], 3, "3:10"), (["3:10", "4:20", None], 7, "7:30")]
)
def test_rows_and_hash_are_those_of_the_files_together(digests: list[str | None], rows: int, total: str) -> None:
    files = [file(str(number), digest) for number, digest in enumerate(digests)]
    made = table_record(table(column("id"), oid=7), files)
    assert (made.id, made.table_schema, made.name) == ("7", "shop", "orders")
    assert (made.rows, made.digest, made.files) == (rows, total, tuple(files))
