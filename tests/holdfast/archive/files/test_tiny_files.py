"""Tiny files are decoded together where they are of one form, and as they are where not."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.archive.files import tiny_files
from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.files.bounded_parquet import BoundedFile
from holdfast.archive.files.data_files import read_file
from holdfast.archive.files.tiny_files import read_files
from holdfast.archive.format.document import FileRecord
from holdfast.common.errors import DamagedError
from holdfast.storage import ObjectStore, open_store

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "id": (pa.int32(), [1, 2, None]),
    "truth": (pa.bool_(), [True, None, False]),
    "number": (pa.float64(), [1.5, float("inf"), None]),
    "text": (pa.string(), ["a", None, "ü" * 40]),
    "bytes": (pa.binary(), [b"", b"\x28\xb5\x2f\xfd", None]),
    "price": (pa.decimal128(12, 2), [Decimal("1.50"), None, Decimal("-7.00")]),
    "amount": (pa.decimal128(30, 4), [Decimal("1.5000"), None, Decimal("-7.0000")]),
    "at": (pa.timestamp("us", tz="UTC"), [0, 1, None]),
    "unchanged": (pa.list_(pa.int32()), [[], [3, 4], None]),
}
SCHEMA = pa.schema(
    [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(number + 1)})
        for number, (name, (kind, _)) in enumerate(KINDS.items())
    ]
)
ROWS = pa.record_batch([pa.array(values, kind) for kind, values in KINDS.values()], schema=SCHEMA)

File = tuple[FileRecord, bytes]


@pytest.fixture
def store(tmp_path: Any) -> ObjectStore:
    return open_store(str(tmp_path))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of files that are opened alone."""
    paths: list[str] = []

    class Noted(BoundedFile):
        def __init__(self, body: bytes | memoryview, path: str) -> None:
            paths.append(path)
            super().__init__(body, path)

    monkeypatch.setattr(tiny_files, "BoundedFile", Noted)
    return paths


def stored(store: ObjectStore, name: str, rows: pa.RecordBatch) -> File:
    (record,) = write_parquet(store, name, rows.schema, [rows], key=rows.schema.names[0])
    return record, read_file(store, record)


def written(name: str, rows: pa.RecordBatch, **options: Any) -> File:
    """A file as no backup writes it."""
    file = io.BytesIO()
    pq.write_table(pa.Table.from_batches([rows]), file, **options)
    body = file.getvalue()
    return FileRecord(path=name, size=len(body), sha256="0" * 64, rows=rows.num_rows), body


def rows_of(files: list[File], ids: set[int] | None = None) -> list[dict[str, Any]]:
    return [row for batch in read_files(files, ids=ids) for row in batch.to_pylist()]


def test_files_of_one_form_are_opened_once(store: ObjectStore, opened: list[str]) -> None:
    parts = [ROWS.slice(number % 3, 1 + number % 2) for number in range(40)]
    files = [stored(store, f"f{number}", part) for number, part in enumerate(parts)]
    (batch,) = read_files(files)
    assert batch.to_pylist() == [row for part in parts for row in part.to_pylist()]
    assert batch.schema == SCHEMA
    assert batch.schema.field("price").metadata == {b"PARQUET:field_id": b"6"}
    assert opened == [files[0][0].path]


def test_chosen_fields_alone_are_read(store: ObjectStore) -> None:
    files = [stored(store, f"f{number}", ROWS) for number in range(3)]
    assert rows_of(files, {1, 9}) == 3 * ROWS.select(["id", "unchanged"]).to_pylist()


def test_another_form_begins_anew_and_order_is_kept(store: ObjectStore, opened: list[str]) -> None:
    other = ROWS.select(["id", "text"]).rename_columns(["id", "renamed"])
    files = [stored(store, f"f{number}", rows) for number, rows in enumerate([ROWS, ROWS, other, other, ROWS])]
    assert [batch.num_rows for batch in read_files(files)] == [6, 6, 3]
    assert opened == [files[number][0].path for number in (0, 2, 4)]


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zstd", "use_dictionary": False},
        {"compression": "none"},
        {"compression": "none", "use_dictionary": False, "data_page_version": "2.0"},
        {"compression": "none", "use_dictionary": False, "row_group_size": 1},
        {"compression": "none", "use_dictionary": False, "max_rows_per_page": 1, "write_batch_size": 1},
        {"compression": "none", "use_dictionary": False, "column_encoding": {"id": "DELTA_BINARY_PACKED"}},
        {"compression": {"id": "zstd"}, "use_dictionary": False},
    ],
    ids=["compressed", "dictionary", "other pages", "row groups", "several pages", "differences", "one column"],
)
@pytest.mark.parametrize("before", [False, True], ids=["alone", "behind tiny ones"])
def test_what_is_not_tiny_is_decoded_as_it_is(before: bool, options: dict[str, Any]) -> None:
    tiny = [written("tiny", ROWS, compression="none", use_dictionary=False)] * before
    files = [*tiny, written("a", ROWS, **options), written("b", ROWS, **options)]
    assert rows_of(files) == len(files) * ROWS.to_pylist()


def test_files_of_many_values_are_not_decoded_together(monkeypatch: pytest.MonkeyPatch, store: ObjectStore) -> None:
    monkeypatch.setattr(tiny_files, "MOST_VALUES", 2 * (ROWS.num_rows * ROWS.num_columns + 1))
    files = [stored(store, f"f{number}", ROWS) for number in range(5)]
    assert [batch.num_rows for batch in read_files(files)] == [6, 6, 3]


def test_a_file_with_other_rows_than_recorded_is_damage(store: ObjectStore) -> None:
    files = [stored(store, f"f{number}", ROWS) for number in range(2)]
    record, body = files[1]
    for rows in (2, 4):
        with pytest.raises(DamagedError, match=rf"f1.* holds 3 rows; its record says {rows}"):
            rows_of([files[0], (record.model_copy(update={"rows": rows}), body)])


def test_a_page_that_claims_more_than_its_file_has_is_damage(store: ObjectStore) -> None:
    files = [stored(store, f"f{number}", ROWS) for number in range(2)]
    record, body = files[1]
    forged = body[:6] + b"\xfe\xff\xff\xff\x0f" + body[11:]
    with pytest.raises(DamagedError, match="f1"):
        rows_of([files[0], (record, forged)])
