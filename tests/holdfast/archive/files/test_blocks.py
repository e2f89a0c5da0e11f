from __future__ import annotations

import hashlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.archive.files import blocks, data_files
from holdfast.archive.format.document import FileRecord
from holdfast.common.errors import DamagedError
from holdfast.storage import ObjectStore

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


def batches(count: int, rows: int = 100) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        ids = range(number * rows, (number + 1) * rows)
        yield pa.record_batch([pa.array(ids), pa.array([f"row {each}" for each in ids])], schema=SCHEMA)


def write(store: ObjectStore, count: int = 3, key: str | None = "id") -> list[FileRecord]:
    return list(blocks.write_parquet(store, "data/s/1/snapshot/b/00000", SCHEMA, batches(count), key=key))


def test_rows_come_back_as_they_were_written(store: ObjectStore) -> None:
    (record,) = write(store)
    found = pa.Table.from_batches(blocks.read_batches(store, record))
    assert found == pa.Table.from_batches(batches(3))
    assert (record.rows, record.key_range) == (300, ("0", "299"))


def test_the_record_describes_the_bytes_on_the_store(store: ObjectStore) -> None:
    (record,) = write(store)
    body = store.get(record.path)
    assert (record.size, record.sha256) == (len(body), hashlib.sha256(body).hexdigest())


def test_a_table_without_rows_has_a_file_with_its_schema(store: ObjectStore) -> None:
    (record,) = write(store, count=0)
    assert (record.rows, record.key_range) == (0, None)
    assert list(blocks.read_batches(store, record)) == []


def test_a_large_piece_goes_into_several_files(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "FILE_BYTES", 1000)
    monkeypatch.setattr(blocks, "ROW_GROUP_BYTES", 1)
    records = write(store, count=5)
    assert len(records) > 1
    assert sum(record.rows for record in records) == 500
    assert len({record.path for record in records}) == len(records)


def test_two_attempts_never_share_a_file(store: ObjectStore) -> None:
    assert write(store)[0].path != write(store)[0].path


def test_nothing_is_left_of_a_piece_whose_source_failed(store: ObjectStore) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(1)
        raise ConnectionError("cut")

    with pytest.raises(ConnectionError):
        list(blocks.write_parquet(store, "data/s/1/snapshot/b/00000", SCHEMA, failing()))
    assert store.list("data/").objects == ()


@pytest.mark.parametrize("place", [0, 10, -5])
def test_a_changed_byte_is_found_and_the_file_named(store: ObjectStore, place: int, tmp_path: Path) -> None:
    (record,) = write(store)
    body = bytearray(store.get(record.path))
    body[place] ^= 0x10
    store.put(record.path, bytes(body))
    with pytest.raises(DamagedError, match=record.path):
        list(blocks.read_batches(store, record))


def test_the_record_tells_of_the_footer(store: ObjectStore) -> None:
    for record in (*write(store), *blocks.write_parquet(store, "data/none", SCHEMA, iter(()))):
        body = store.get(record.path)
        length = int.from_bytes(body[-8:-4], "little") + 8  # as Parquet counts it
        assert record.footer == f"{length}:{hashlib.sha256(body[-length:]).hexdigest()}"
        data_files.check_footer(store, record)


NUMBERS = {
    "long": pa.int64(),
    "short": pa.int16(),
    "day": pa.date32(),
    "moment": pa.timestamp("us", tz="UTC"),
    "amount": pa.decimal128(18, 2),
}


@pytest.mark.parametrize(
    ("different", "packed"),
    [
        pytest.param(3000, {"DELTA_BINARY_PACKED"}, id="many values, as differences"),
        pytest.param(40, {"RLE_DICTIONARY"}, id="few values, as a dictionary"),
    ],
)
def test_numbers_are_packed_by_how_many_values_they_have(store: ObjectStore, different: int, packed: set[str]) -> None:
    numbers = [-1, None, *(number * 7919 % different for number in range(2998))]
    amounts = [None if number is None else Decimal(number) / 100 for number in numbers]
    columns = {name: pa.array(amounts if name == "amount" else numbers, kind) for name, kind in NUMBERS.items()}
    batch = pa.record_batch(columns)
    (record,) = blocks.write_parquet(store, "data/s/1/snapshot/b/00000", batch.schema, [batch])
    assert pa.Table.from_batches(blocks.read_batches(store, record)) == pa.Table.from_batches([batch])
    group = pq.ParquetFile(pa.BufferReader(store.get(record.path))).metadata.row_group(0)
    for number in range(len(NUMBERS)):
        assert set(group.column(number).encodings) - {"RLE", "PLAIN"} == packed


def test_lists_keep_their_dictionary_beside_numbers_that_are_packed(store: ObjectStore) -> None:
    lists = pa.array([["a", "b"]] * 3000, pa.list_(pa.string()))
    batch = pa.record_batch({"id": pa.array(range(3000)), "unchanged": lists})
    (record,) = blocks.write_parquet(store, "data/s/1/snapshot/b/00000", batch.schema, [batch])
    group = pq.ParquetFile(pa.BufferReader(store.get(record.path))).metadata.row_group(0)
    assert [group.column(number).encodings[-1] for number in range(2)] == ["DELTA_BINARY_PACKED", "RLE_DICTIONARY"]
