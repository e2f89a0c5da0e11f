"""An archive that no database was read for: one table with a snapshot, and changes of it in many blocks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from holdfast.archive import Archive, Change
from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.block import Block, Coverage, SourceRecord, Stream, Transactions
from holdfast.archive.format.document import TableRecord
from holdfast.common.lsn import show_position
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.catalog.columns import Column
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.logical.relation_schema import change_schema
from holdfast.postgresql.logical.window_reader import TRANSACTIONS
from holdfast.postgresql.values.content_hash import ContentHash, digest
from holdfast.postgresql.values.stored_columns import schema_of
from holdfast.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.archive.format.document import FileRecord
    from holdfast.storage import ObjectStore

_SOURCE = "bench"
_OID = 16400
_ROWS_AT_ONCE = 100_000
_CHANGES_OF_TRANSACTION = 100
_FIRST = 1 << 24
"""Position of the snapshot."""
_BEGAN = datetime(2026, 3, 1, tzinfo=UTC)


def make_column(number: int, name: str, kind: str, base: str, output: str, **more: object) -> Column:
    """Return a column of a built-in type, as it is read from the catalog of a server."""
    plain = {"is_array": False, "precision": None, "scale": None, "not_null": False, "generated": "", "identity": ""}
    return Column.from_dict(
        {"number": number, "name": name, "type": kind, "base": base, "base_schema": "pg_catalog", "kind": "b",
         "output": f"pg_catalog.{output}", **plain, **more}
    )  # fmt: skip


COLUMNS = (
    make_column(1, "id", "bigint", "int8", "int8out"),
    make_column(2, "at", "timestamp with time zone", "timestamptz", "timestamptz_out"),
    make_column(3, "amount", "numeric(12,2)", "numeric", "numeric_out", precision=12, scale=2),
    make_column(4, "name", "text", "text", "textout"),
)


@dataclass(frozen=True)
class PaperArchive:
    """Where it is, and what must come out of it.

    :param expected_rows: of the table at the end.
    :param size: stored bytes of its changes.
    """

    folder: Path
    blocks: int
    expected_rows: int
    size: int
    base: tuple[str, ...]
    changes: tuple[str, ...]

    @classmethod
    def make(cls, folder: Path, *, changes: int, rows: int, blocks: int) -> PaperArchive:
        """Make it: updates of rows drawn at random, the same ones each time."""
        store = Archive.create(open_store(str(folder)), name="bench").store
        maker = _Maker(store, rows, np.random.default_rng(1))
        base = maker.snapshot()
        found = [maker.changes(changes * (each + 1) // blocks - changes * each // blocks) for each in range(blocks)]
        size = sum(file.size for files in found for file in files)
        paths = tuple(str(folder / file.path) for files in found for file in files)
        return cls(folder, blocks, rows, size, tuple(str(folder / file.path) for file in base), paths)

    @property
    def join_query(self) -> str:
        """Return what DuckDB does to join the changes."""
        return f"select * from read_parquet({list(self.changes)}) order by id, __lsn, __seq"

    @property
    def snapshot_query(self) -> str:
        """Return what DuckDB does to make the rows at the end."""
        columns = ", ".join(f'"{name}"' for name in schema_of(COLUMNS).names)
        changed = f"read_parquet({list(self.changes)})"
        last = "row_number() over (partition by id order by __lsn desc, __seq desc) = 1"
        newest = f"select {columns} from {changed} qualify {last}"
        gone = f"select 1 from {changed} c where c.id = b.id"
        kept = f"select {columns} from read_parquet({list(self.base)}) b where not exists ({gone})"
        return f"{kept} union all {newest}"


class _Maker:
    def __init__(self, store: ObjectStore, rows: int, random: np.random.Generator) -> None:
        self._archive = Archive.open(store)
        self._store = store
        self._rows = rows
        self._random = random
        self._position = _FIRST
        self._blocks = 0
        self._catalog = write_bytes(store, f"data/{_SOURCE}/schema/snapshot/paper/catalog.json", _catalog(rows))

    def snapshot(self) -> tuple[FileRecord, ...]:
        """Commit the snapshot that begins the stream."""
        found = ContentHash()

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal found
            for first in range(0, self._rows, _ROWS_AT_ONCE):
                batch = self._table(np.arange(first, min(self._rows, first + _ROWS_AT_ONCE)))
                found += digest(COLUMNS, batch)
                yield batch

        files = []
        stem = f"data/{_SOURCE}/{_OID}/snapshot/paper/00000"
        for file in write_parquet(self._store, stem, schema_of(COLUMNS), batches(), key="id"):
            files.append(file.model_copy(update={"digest": str(found)}))
            found = ContentHash()
        total = sum((ContentHash.parse(file.digest or "0:0") for file in files), ContentHash())
        record = TableRecord(id=str(_OID), table_schema="public", name="sales", rows=self._rows, digest=str(total),
                             files=tuple(files))  # fmt: skip
        covers = Coverage(to_position=show_position(_FIRST), from_time=_BEGAN, to_time=_BEGAN)
        self._commit("paper", "snapshot", covers, (record,), opened=True)
        return tuple(files)

    def changes(self, count: int) -> tuple[FileRecord, ...]:
        """Commit a block of updates."""
        name = f"paper{self._blocks}"
        start = self._position
        transactions = -(-count // _CHANGES_OF_TRANSACTION)
        positions = start + 64 * np.arange(transactions, dtype=np.int64)
        lsn = np.repeat(positions, _CHANGES_OF_TRANSACTION)[:count]
        seq = 2 * (np.arange(count, dtype=np.int64) % _CHANGES_OF_TRANSACTION + 1)
        rows = self._table(self._random.integers(0, self._rows, count))
        extra = [pa.array(lsn), pa.array(seq), pa.repeat(pa.scalar("U"), count), pa.nulls(count, pa.list_(pa.int32()))]
        schema = change_schema(COLUMNS)
        batch = pa.RecordBatch.from_arrays([*rows.columns, *extra], schema=schema)
        files = tuple(
            write_parquet(self._store, f"data/{_SOURCE}/{_OID}/changes/{name}/00000", schema, [batch], key="id")
        )
        self._position = start + 64 * transactions
        since, until = (_BEGAN + timedelta(minutes=self._blocks + each) for each in (0, 1))
        listed = pa.RecordBatch.from_arrays(
            [pa.array(positions), pa.array(positions + 8), pa.array(positions),
             pa.repeat(pa.scalar(until, pa.timestamp("us", "UTC")), transactions)]
            , schema=TRANSACTIONS,
        )  # fmt: skip
        (file,) = write_parquet(
            self._store, f"data/{_SOURCE}/transactions/changes/{name}/00000", TRANSACTIONS, [listed], key="lsn"
        )
        record = TableRecord(
            id=str(_OID), table_schema="public", name="sales", rows=count, digest="", files=files, key=(1,),
            columns=tuple(column.to_dict() for column in COLUMNS),
            first=show_position(int(lsn[0])), last=show_position(int(lsn[-1])),
        )  # fmt: skip
        covers = Coverage(
            from_position=show_position(start),
            to_position=show_position(self._position),
            from_time=since,
            to_time=until,
        )
        told = Transactions(file=file, count=transactions, first_time=until, last_time=until)
        self._commit(name, "changes", covers, (record,), transactions=told)
        self._blocks += 1
        return files

    def _table(self, ids: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.RecordBatch:
        """Return rows with these keys; the other values are drawn."""
        count = len(ids)
        amount = pa.array(self._random.integers(0, 10**9, count)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2))
        hexed = self._random.bytes(16 * count).hex()
        names = pa.array([hexed[at : at + 32] for at in range(0, 32 * count, 32)])
        at = pa.array(self._random.integers(0, 10**15, count)).cast(pa.timestamp("us", "UTC"))
        values = [pa.array(ids), at, amount, names]
        schema = schema_of(COLUMNS)
        sidecars = [pa.nulls(count, pa.string())] * (len(schema) - len(values))
        return pa.RecordBatch.from_arrays([*values, *sidecars], schema=schema)

    def _commit(
        self,
        name: str,
        kind: str,
        covers: Coverage,
        tables: tuple[TableRecord, ...],
        *,
        opened: bool = False,
        transactions: Transactions | None = None,
    ) -> None:
        position = covers.from_position or covers.to_position
        stream = Stream(
            slot="s", position=position, opened=opened, publication="s", publication_oid=1, followed={_OID: 1}
        )
        block = Block(
            id=name, kind=kind, run="paper", covers=covers, tables=tables, catalog=self._catalog, schema_dump=None,
            source=SourceRecord(name=_SOURCE, kind="postgresql", database="bench", version="180000"),
            stream=stream, schema_version="1", transactions=transactions,
        )  # fmt: skip
        change = Change(kind="backup", add=(block,))
        self._archive.add(lambda state: change, check=lambda: None, fence=None)


def _catalog(rows: int) -> bytes:
    sales = Table(
        oid=_OID, table_schema="public", name="sales", columns=COLUMNS, persistence="p", replica_identity="d",
        access_method="heap", parents=(), bound=None, owner="bench", key=("id",), pages=1, size=8192,
        estimated_rows=rows, kind="r",
    )  # fmt: skip
    catalog = Catalog(
        database="bench", server_version=180000, encoding="UTF8", tables=(sales,), sequences=(), materialized_views=(),
        references=(), roles=(),
    )  # fmt: skip
    return catalog.model_dump_json().encode()
