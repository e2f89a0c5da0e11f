"""File of a checkpoint: a row per block, and a header with the rest of the state."""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, TypeAdapter

from holdfast.archive.format.block import Block
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.format.checkpoint import checkpoint_key
from holdfast.archive.format.commits import commit_key
from holdfast.archive.format.document import ChecksummedDocument, Count, Moment, TableRecord
from holdfast.archive.format.model import Hold, LogPlace  # noqa: TC001 - pydantic reads them at run time
from holdfast.archive.format.state import Removed, State, check_readable
from holdfast.archive.format.trust import CommitReader, was_signed_by
from holdfast.archive.format.versions import read_versions
from holdfast.common.errors import DamagedError
from holdfast.storage.encryption.signing_key import believed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from holdfast.archive.format.document import FileRecord
    from holdfast.storage import ObjectStore
    from holdfast.storage.contract.object_store import StoredDocument

    _Followed = dict[bytes, tuple[dict[int, int], dict[str, str]]]

_HEADER: Final = b"holdfast:checkpoint"

_IN_BOTH: Final = (
    *("sequence", "tip_checksum", "format", "min_reader", "min_writer", "vouched_by", "superseded", "documents"),
    *("ends", "streams", "log"),
)
"""Fields of a header that are those of the state."""

_COLUMNS: Final = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("commit", pa.int64(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("head", pa.binary(), nullable=False),
        pa.field("tables_followed", pa.binary(), nullable=False),
    ]
)
"""`head` is the block's document without columns of tables and without their files, but for those of other blocks, and
without which tables its stream follows: that is the same in most blocks, and stands in `tables_followed`."""


class Header(ChecksummedDocument):
    """Header of a checkpoint: the state without its blocks."""

    archive: str
    sequence: int
    tip: str
    tip_checksum: str = ""
    at: Moment
    min_reader: int
    min_writer: int
    ends: dict[str, str]
    streams: dict[str, str]
    removed: tuple[Removed, ...]
    holds: tuple[Hold, ...]
    abandoned: tuple[str, ...]
    log: LogPlace | None = None
    aside: tuple[Removed, ...] = ()
    numbers: dict[str, int] = Field(default_factory=dict)  # of blocks that have another number than their commit, by id
    vouched_by: int = 0
    superseded: dict[str, Count] = Field(default_factory=dict)
    documents: dict[str, str] | None = None
    void: tuple[int, ...] = ()
    digest: str  # SHA-256 of the columns' values


def to_bytes(archive: str, state: State, tip: str, at: datetime) -> bytes:
    """Return the bytes of a state's checkpoint, after the commit `tip` of an archive with this id."""
    table = pa.Table.from_pylist([_row(placed) for placed in state.blocks.values()], schema=_COLUMNS)
    header = Header(
        archive=archive,
        tip=tip,
        at=at,
        removed=tuple(state.removed.values()),
        holds=tuple(state.holds.values()),
        aside=tuple(state.aside.values()),
        abandoned=tuple(sorted(state.abandoned)),
        void=tuple(sorted(state.void)),
        numbers={placed.id: placed.number for placed in state.blocks.values() if placed.number != placed.commit},
        digest=_digest(table),
        **{name: getattr(state, name) for name in _IN_BOTH},
    )
    body = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({_HEADER: header.to_bytes()}), body, compression="zstd")
    return body.getvalue()


def _row(placed: Placed) -> dict[str, Any]:
    head = placed.head
    packs = _of_others(head.packs, placed.id)
    tables = tuple(_without_own_files(table, placed.id) for table in head.tables)
    shared = b""
    if head.stream is not None:
        shared = _FOLLOWED.dump_json((head.stream.followed, head.stream.not_followed))
        head = head.model_copy(update={"stream": head.stream.model_copy(update={"followed": {}, "not_followed": {}})})
    head = head.model_copy(update={"tables": tables, "packs": packs})
    return {
        "id": placed.id,
        "commit": placed.commit,
        "source": placed.source,
        "rows": placed.rows,
        "size": placed.size,
        "head": head.model_dump_json(exclude_defaults=True).encode(),
        "tables_followed": shared,
    }


def _without_own_files(table: TableRecord, block: str) -> TableRecord:
    return table.model_copy(update={"files": _of_others(table.files, block), "columns": ()})


def _of_others(files: Iterable[FileRecord], block: str) -> tuple[FileRecord, ...]:
    return tuple(file for file in files if block not in file.path.split("/"))


_FOLLOWED: Final = TypeAdapter(tuple[dict[int, int], dict[str, str]])


def _digest(table: pa.Table) -> str:
    """Return the SHA-256 of a table's values, whatever file they come from."""
    found = hashlib.sha256()
    for name in _COLUMNS.names:
        for value in table[name].to_pylist():
            body = value if isinstance(value, bytes) else str(value).encode()
            found.update(b"%d:" % len(body))
            found.update(body)
    return found.hexdigest()


def from_bytes(store: ObjectStore, archive: str, document: StoredDocument, key: str) -> State:
    """Return the state that a checkpoint holds, of the archive with this id.

    :raises DamagedError: it is no checkpoint of it, not what was written, or not signed where that is asked for.
    :raises UsageError: it needs a newer release.
    """
    try:
        table = pq.read_table(pa.BufferReader(document.body))
        stored = (table.schema.metadata or {})[_HEADER]
        if not table.schema.equals(_COLUMNS):  # values of another type may look the same
            raise ValueError(f"it has the columns {table.schema.names}")
        digest = _digest(table)
    except Exception as error:  # whatever a broken file does to its reader, nothing depends on it
        raise DamagedError(f"{key} is damaged or no checkpoint of ours") from error
    known = believed(store.signing)
    if not document.is_believed and known is not None and was_signed_by(stored, key, known) is None:
        raise DamagedError(f"{key} is signed by nobody who is known here")
    check_readable(read_versions(stored, key), key)
    header = Header.from_bytes(stored, key)
    if (digest, archive, key) != (header.digest, header.archive, checkpoint_key(header.sequence)):
        raise DamagedError(f"{key} is damaged: it is not what was written under this name")
    reader = CommitReader(store, header.vouched_by)
    return State(
        tip=header.tip,
        at=header.at,
        void=frozenset(header.void),
        blocks={placed.id: placed for placed in _blocks(reader, table, header.numbers)},
        removed={each.id: each for each in header.removed},
        holds={hold.id: hold for hold in header.holds},
        abandoned=frozenset(header.abandoned),
        aside={each.id: each for each in header.aside},
        **{name: getattr(header, name) for name in _IN_BOTH},
    )


def _blocks(reader: CommitReader, table: pa.Table, numbers: Mapping[str, int]) -> Iterator[Placed]:
    followed: _Followed = {}
    for row in table.to_pylist():
        yield Placed(_Remembered(reader, followed, _Row(**row)), row["commit"], number=numbers.get(row["id"]))


class _Row(NamedTuple):
    """Row of a checkpoint; its fields are those of `_COLUMNS`."""

    id: str
    commit: int
    source: str
    rows: int
    size: int
    head: bytes
    tables_followed: bytes


class _Remembered:
    """Block as a checkpoint stores it.

    :param followed: what was read of `tables_followed` so far, which many blocks have in common.
    """

    def __init__(self, reader: CommitReader, followed: _Followed, row: _Row) -> None:
        self._reader = reader
        self._followed = followed
        self._row = row
        self.id = row.id
        self.source = row.source
        self.rows = row.rows
        self.size = row.size

    def head(self) -> Block:
        head = Block.from_bytes(self._row.head, f"block {self.id}")
        if head.stream is None:
            return head
        shared = self._row.tables_followed
        if shared not in self._followed:
            self._followed[shared] = _FOLLOWED.validate_json(shared)
        followed, not_followed = self._followed[shared]
        stream = head.stream.model_copy(update={"followed": followed, "not_followed": not_followed})
        return head.model_copy(update={"stream": stream})

    def block(self) -> Block:
        """Read the block from its commit; DamagedError: that is missing, damaged or not to be believed."""
        commit = self._reader.read(self._row.commit)
        for block in commit.add:
            if block.id == self.id:
                return block
        raise DamagedError(f"{commit_key(self._row.commit)} does not add block {self.id}: it is not what was written")
