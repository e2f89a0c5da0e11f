"""Made-up histories of one table, written as the files of an archive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any

import pyarrow as pa

from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.scan.table_history import TableHistory
from holdfast.common.field_ids import LSN, OP, SEQ, UNCHANGED, field_id, numbered, with_extra
from holdfast.common.lsn import show_position
from holdfast.storage import ObjectStore

SINCE = 1000
"""Position of the snapshot."""

Row = dict[int, Any]
"""Values by field id."""

FIRST_FORM = pa.schema(
    [
        numbered("id", pa.int64(), 1),
        numbered("day", pa.date32(), 2),
        numbered("text", pa.string(), 3),
        numbered("note", pa.string(), 4),
        numbered("price", pa.decimal128(10, 2), 6),
        numbered("day__exact", pa.string(), 100_002),
        numbered("price__exact", pa.string(), 100_006),
    ]
)
"""`day` may be "infinity", which stands in its sidecar; both texts may be too large to be logged at each update."""

SECOND_FORM = pa.schema(
    [
        numbered("number", pa.int64(), 1),
        numbered("day", pa.date32(), 2),
        numbered("body", pa.string(), 3),
        numbered("price", pa.decimal128(12, 2), 6),
        numbered("added", pa.int64(), 7),
        numbered("day__exact", pa.string(), 100_002),
        numbered("price__exact", pa.string(), 100_006),
    ]
)
"""After columns were renamed, widened and dropped, and one was added with a default."""

FORMS = (FIRST_FORM, SECOND_FORM)
MISSING = {7: pa.scalar(70, pa.int64())}


def numbers(form: pa.Schema) -> list[int]:
    return [field_id(each) for each in form]


def change_schema(form: pa.Schema) -> pa.Schema:
    return with_extra(
        form,
        numbered("__lsn", pa.int64(), LSN),
        numbered("__seq", pa.int64(), SEQ),
        numbered("__op", pa.string(), OP),
        numbered("__unchanged", pa.list_(pa.int32()), UNCHANGED),
    )


@dataclass(frozen=True)
class Change:
    form: int
    lsn: int
    seq: int
    op: str
    row: Row = field(default_factory=dict)
    unchanged: tuple[int, ...] = ()


def record_batch(form: pa.Schema, rows: Sequence[Row]) -> pa.RecordBatch:
    columns = [
        pa.array([row.get(number) for row in rows], each.type) for number, each in zip(numbers(form), form, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=form)


def change_batch(changes: Sequence[Change]) -> pa.RecordBatch:
    form = FORMS[changes[0].form]
    schema = change_schema(form)
    rows = record_batch(form, [each.row for each in changes])
    extra = [
        pa.array([each.lsn for each in changes]),
        pa.array([each.seq for each in changes]),
        pa.array([each.op for each in changes]),
        pa.array([list(each.unchanged) or None for each in changes], pa.list_(pa.int32())),
    ]
    return pa.RecordBatch.from_arrays([*rows.columns, *extra], schema=schema)


def write_base(store: ObjectStore, rows: Sequence[Row], files: int) -> TableRecord:
    """Write the snapshot, in the first form."""
    step = max(1, -(-len(rows) // files))
    records = [
        record
        for number in range(files)
        for record in write_parquet(
            store, f"data/shop_db/1/snapshot/b/{number:05}", FIRST_FORM,
            [record_batch(FIRST_FORM, rows[number * step : (number + 1) * step])],
        )
    ]  # fmt: skip
    return TableRecord(id="1", table_schema="shop", name="orders", rows=len(rows), digest="", files=tuple(records))


def write_changes(
    store: ObjectStore, changes: Sequence[Change], *, block_of: int, file_of: int, key: tuple[int, ...]
) -> tuple[TableRecord, ...]:
    """Write changes into blocks of `block_of` transactions and files of `file_of` changes, one record for each form."""
    transactions = [list(group) for _, group in groupby(changes, key=lambda each: each.lsn)]
    records = []
    for block in range(0, len(transactions), block_of):
        mine = [change for one in transactions[block : block + block_of] for change in one]
        for form in sorted({change.form for change in mine}):
            records.append(
                _record(store, [each for each in mine if each.form == form], f"{block}-{form}", file_of, key)
            )
    return tuple(records)


def _record(
    store: ObjectStore, changes: Sequence[Change], name: str, file_of: int, key: tuple[int, ...]
) -> TableRecord:
    files: list[FileRecord] = []
    for number, some in enumerate(_chunks(changes, file_of)):
        stem = f"data/shop_db/1/changes/{name}/{number:05}"
        files += write_parquet(store, stem, change_schema(FORMS[some[0].form]), [change_batch(some)])
    return TableRecord(
        id="1", table_schema="shop", name="orders", rows=len(changes), digest="", files=tuple(files), key=key,
        first=show_position(changes[0].lsn), last=show_position(changes[-1].lsn),
    )  # fmt: skip


def _chunks(changes: Iterable[Change], size: int) -> Iterable[list[Change]]:
    left = iter(changes)
    while some := list(islice(left, size)):
        yield some


def history_of(
    base: TableRecord, changes: tuple[TableRecord, ...], upto: int, form: int, key: tuple[int, ...]
) -> TableHistory:
    return TableHistory(
        table="1", label=base.label, base=base.files, since=SINCE, changes=changes, key=key, upto=upto,
        wanted=FORMS[form], missing=MISSING,
    )  # fmt: skip
