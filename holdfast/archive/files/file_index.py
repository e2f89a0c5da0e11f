"""Index of the files that an archive names: what each holds, and whether it is as it was written."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.archive.files.data_files import check_file, read_file
from holdfast.common.errors import DamagedError
from locking.store import ObjectNotFound

if TYPE_CHECKING:
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.document import FileRecord, TableRecord
    from holdfast.storage import ObjectStore

SCHEMA = "schema"
TRANSACTIONS = "transactions"
"""What a file holds that is of no table."""


@dataclass(frozen=True)
class NamedFile:
    """Stored file, as a block names it.

    :param block: id of the block; `commit`: the one that added it.
    :param holds: `schema.table`, "schema" for what describes the schema, "transactions" for when they were committed;
        of a pack, the first of its tables and how many more there are.
    :param tables: ids of the tables that it is of.
    :param parts: the files in a pack, in the order in which they lie there.
    :param is_decoded: its pages were read since it was written: with the same bytes, they can be read.
    """

    record: FileRecord
    block: str
    commit: int
    source: str
    holds: str
    tables: tuple[str, ...] = ()
    parts: tuple[FileRecord, ...] = ()
    is_decoded: bool = False

    @property
    def path(self) -> str:
        """Return the key in the store."""
        return self.record.path


def files_of(placed: Placed) -> list[NamedFile]:
    """Return every file of a block, by path.

    :raises DamagedError: the commit that names them is not what was written.
    """
    block = placed.block
    rows: dict[str, list[tuple[TableRecord, FileRecord]]] = {}
    for table in block.tables:
        for file in table.files:
            rows.setdefault(file.key, []).append((table, file))
    times = block.transactions.file.path if block.transactions else None

    def named(file: FileRecord) -> NamedFile:
        found = sorted(rows.get(file.path, ()), key=lambda pair: pair[1].offset or 0)
        if found:
            labels = list(dict.fromkeys(table.label for table, _ in found))
            holds = labels[0] if len(labels) == 1 else f"{labels[0]} and {len(labels) - 1} more tables"
        else:
            holds = TRANSACTIONS if file.path == times else SCHEMA
        return NamedFile(
            file,
            placed.id,
            placed.commit,
            placed.source,
            holds,
            tables=tuple(dict.fromkeys(table.id for table, _ in found)),
            parts=tuple(each for _, each in found if each.offset is not None),
        )

    return sorted(map(named, block.files()), key=lambda file: file.path)


@dataclass(frozen=True)
class Problem:
    """Defect of a stored file.

    :param is_as_written: it has the bytes that were written: every copy of it has the same, and none can mend it.
    """

    said: str
    is_as_written: bool = False


def size_problem(store: ObjectStore, record: FileRecord) -> Problem | None:
    """Return a problem with a file's existence or size, or None, by one request."""
    try:
        return wrong_size(record, store.head(record.path).size)
    except ObjectNotFound:
        return wrong_size(record, None)


def wrong_size(record: FileRecord, size: int | None) -> Problem | None:
    """Return the problem of a file with this size in bytes (None: it is missing), or None."""
    if size is None:
        return Problem(f"{record.path} is missing")
    return None if size == record.size else Problem(f"{record.path} has {size} bytes instead of {record.size}")


def content_problem(store: ObjectStore, named: NamedFile) -> Problem | None:
    """Read a file, and return its problem or None.

    Its bytes are checked, and of Parquet that was not decoded before, its pages and the number of its rows.
    """
    record = named.record
    try:
        if named.is_decoded:
            check_file(store, record)
            return None
        body = read_file(store, record)
    except DamagedError as error:
        return Problem(str(error))
    if named.parts:
        problems = (_part_problem(part, body) for part in named.parts)
        return next((problem for problem in problems if problem), None)
    return _parquet_problem(record, body) if record.path.endswith(".parquet") else None


def _part_problem(part: FileRecord, pack: bytes) -> Problem | None:
    """Return the problem of a part of a pack that has the bytes that were written, or None."""
    offset = part.offset or 0
    body = memoryview(pack)[offset : offset + part.size]
    if hashlib.sha256(body).hexdigest() != part.sha256:
        said = f"{part.path} is not what its record says, in a pack that has the bytes that were written"
        return Problem(said, is_as_written=True)
    return _parquet_problem(part, body)


def _parquet_problem(record: FileRecord, body: bytes | memoryview) -> Problem | None:
    """Return the problem of a Parquet file that has the bytes that were written, or None."""
    import pyarrow as pa  # sizes, names and checksums are looked at without it

    from holdfast.archive.files.blocks import open_parquet

    try:
        file = open_parquet(body, record.path)
        rows = sum(file.read_row_group(group).num_rows for group in range(file.num_row_groups))
    except DamagedError as error:
        return Problem(str(error), is_as_written=True)
    except (pa.ArrowException, OSError) as error:
        said = f"{record.path} has the bytes that were written, and cannot be read as Parquet: {error}"
        return Problem(said, is_as_written=True)
    if rows == record.rows:
        return None
    return Problem(f"{record.path} holds {rows} rows; its record says {record.rows}", is_as_written=True)
