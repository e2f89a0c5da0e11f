"""Parquet files are read whole where they are ours, and refused before they unfold where no backup would write them."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.archive.files import bounded_parquet
from holdfast.archive.files.bounded_parquet import BoundedFile
from holdfast.common.errors import DamagedError

TEXTS = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0] * 500, pa.int32()), pa.array(["x" * 5000, "y"]))


def written(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, store_schema=False, **options)
    return file.getvalue()


def rows_of(body: bytes, columns: list[str] | None = None) -> list[pa.RecordBatch]:
    file = BoundedFile(body, "data/a.parquet")
    return [batch for group in file.groups for batch in file.read(group, columns)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups have at most 1 MB, and slices of rows 100 kB."""
    monkeypatch.setattr(bounded_parquet, "GROUP_BYTES", 900_000)
    monkeypatch.setattr(bounded_parquet, "SLICE_BYTES", 100_000)
    monkeypatch.setenv("HOLDFAST_MAX_VALUE_BYTES", "100000")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "zstd", "snappy", "gzip", "lz4"])
@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("statistics", [False, True])
def test_a_file_of_any_form_is_read_as_it_is(
    version: str, compression: str, dictionary: bool, statistics: bool
) -> None:
    table = pa.table(
        {
            "id": range(3000),
            "word": [f"word {i % 7}" * (i % 5) for i in range(3000)],
            "bytes": pa.array([b"\x00" * (i % 300) if i % 3 else None for i in range(3000)]),
            "list": pa.array([[i, i + 1] if i % 2 else None for i in range(3000)], pa.list_(pa.int32())),
            "yes": [i % 2 == 0 for i in range(3000)],
        }
    )
    options = {"data_page_version": version, "compression": compression, "write_statistics": statistics}
    body = written(table, use_dictionary=dictionary, row_group_size=1000, **options)
    assert pa.Table.from_batches(rows_of(body)).to_pylist() == table.to_pylist()
    assert rows_of(body, ["word"])[0].schema.names == ["word"]


def test_a_dictionary_that_repeats_large_values_is_unfolded_piece_by_piece(small: None) -> None:
    table = pa.table({"id": range(300), "text": TEXTS.slice(0, 300)})
    found = rows_of(written(table))
    assert (
        pa.Table.from_batches(found).to_pylist()
        == pa.table({"id": range(300), "text": TEXTS.slice(0, 300).cast(pa.string())}).to_pylist()
    )
    assert len(found) > 5
    assert max(batch.nbytes for batch in found) < 110_000
    assert {str(batch.schema.field("text").type) for batch in found} == {"string"}


@pytest.mark.parametrize(
    ("table", "options"),
    [
        (pa.table({"text": TEXTS}), {}),
        (pa.table({"text": ["0" * 1000] * 1200}), {"use_dictionary": False, "compression": "zstd"}),
        (pa.table({"number": pa.repeat(7, 130_000)}), {"compression": "zstd"}),
        (pa.table({"list": pa.array([[7] * 300_000], pa.list_(pa.int32()))}), {"compression": "zstd"}),
        (pa.table({"texts": pa.array([["x" * 5000] * 300], pa.list_(pa.string()))}), {"compression": "zstd"}),
        (pa.table({"fixed": pa.array([b"x" * 1000] * 1200, pa.binary(1000))}), {"compression": "zstd"}),
        (pa.table({"nothing": pa.nulls(130_000, pa.int64())}), {}),
        (pa.table({"text": ["x" * 1_100_000]}), {"use_dictionary": False, "compression": "zstd"}),
    ],
    ids=["dictionary", "pages", "runs", "lists", "texts", "fixed", "nulls", "value"],
)
def test_what_unfolds_beyond_any_backups_is_refused(small: None, table: pa.Table, options: dict[str, Any]) -> None:
    body = written(table, **options)
    with pytest.raises(DamagedError, match=r"^data/a\.parquet is no file of ours: a row group has [0-9,]+ bytes"):
        rows_of(body)


def test_larger_values_are_read_where_they_are_allowed(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    body = written(pa.table({"text": ["x" * 1_100_000]}), use_dictionary=False, compression="zstd")
    monkeypatch.setenv("HOLDFAST_MAX_VALUE_BYTES", "1200000")
    assert len(rows_of(body)[0]["text"][0].as_py()) == 1_100_000


def test_an_encoding_that_repeats_other_values_is_refused() -> None:
    body = written(
        pa.table({"text": ["x" * 90, "x" * 90]}), use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"}
    )
    with pytest.raises(DamagedError, match="encoded as no file of ours is"):
        rows_of(body)


def test_a_header_is_read_to_its_end_with_statistics_of_any_length() -> None:
    statistics = b"\x18\x03abc" + b"\x18\x02xy" + b"\x16\x02" + b"\x00"
    page = b"\x15\x14" + b"\x15\x00" + b"\x15\x06" + b"\x15\x06" + b"\x1c" + statistics + b"\x00"
    header = b"\x15\x00" + b"\x15\x80\x80\x40" + b"\x15\x24" + b"\x2c" + page + b"\x00"
    found, begin = bounded_parquet.read_header(memoryview(b"PAR1" + header + b"rest"), 4, 100)
    assert (found[1], found[2], found[3], found[5][1]) == (0, 1 << 19, 18, 10)
    assert begin == 4 + len(header)


@pytest.mark.parametrize("page", [b"\x25\x02", b"\x2c\x1c\x00\x00"], ids=["a number", "a structure for a number"])
def test_a_page_that_does_not_tell_its_values_is_damage(page: bytes) -> None:
    body = written(pa.table({"text": ["0" * 100] * 10}), use_dictionary=False, compression="none")
    header = b"\x15\x00" + b"\x15\x00" + b"\x15\x00" + page + b"\x00"
    with pytest.raises(DamagedError, match="damaged"):
        rows_of(body[:4] + header + body[4 + len(header) :])


@pytest.mark.parametrize("where", [4, 5, 6, 7, 8])
def test_a_broken_header_is_damage(where: int) -> None:
    body = bytearray(written(pa.table({"text": ["0" * 100] * 10}), use_dictionary=False))
    body[where] ^= 0xFF
    with pytest.raises((DamagedError, OSError)):
        rows_of(bytes(body))


def test_a_footer_that_claims_too_much_is_refused_before_it_is_read() -> None:
    body = written(pa.table({"a": [1]}))
    forged = body[:-8] + (1 << 30).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(DamagedError, match=r"its footer has 1,073,741,824 bytes"):
        BoundedFile(forged, "data/a.parquet")


def test_a_reader_of_its_own_is_told_before_it_reads(small: None) -> None:
    BoundedFile(written(pa.table({"text": TEXTS.slice(0, 300)})), "data/a.parquet").check()
    with pytest.raises(DamagedError, match="a row group has"):
        BoundedFile(written(pa.table({"text": TEXTS})), "data/a.parquet").check()
