"""Parquet files are refused before they are read where they declare more than any backup writes."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.archive.files import blocks
from holdfast.archive.files.blocks import open_parquet
from holdfast.common.errors import DamagedError


def written(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, store_schema=False, **{"compression": "zstd", **options})
    return file.getvalue()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups have at most 1 MB."""
    monkeypatch.setattr(blocks, "GROUP_BYTES", 900_000)
    monkeypatch.setenv("HOLDFAST_MAX_VALUE_BYTES", "100000")


@pytest.mark.parametrize(
    ("table", "options"),
    [
        (pa.table({"text": ["0" * 1000] * 1200}), {"use_dictionary": False}),
        (pa.table({"number": pa.repeat(7, 130_000)}), {}),
        (pa.table({"list": pa.array([[7] * 300_000], pa.list_(pa.int32()))}), {}),
        (pa.table({"fixed": pa.array([b"x" * 1000] * 1200, pa.binary(1000))}), {}),
        (pa.table({"nothing": pa.nulls(130_000, pa.int64())}), {"compression": "none"}),
        (pa.table({"text": ["x" * 1_100_000]}), {"use_dictionary": False}),
    ],
    ids=["pages", "runs", "lists", "fixed", "nulls", "value"],
)
def test_what_declares_more_than_any_backup_writes_is_refused(
    small: None, table: pa.Table, options: dict[str, Any]
) -> None:
    body = written(table, **options)
    with pytest.raises(DamagedError, match=r"^data/a\.parquet is no file of ours: a row group has [0-9,]+ bytes"):
        open_parquet(body, "data/a.parquet")


def test_larger_values_are_read_where_they_are_allowed(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    body = written(pa.table({"text": ["x" * 1_100_000]}), use_dictionary=False)
    monkeypatch.setenv("HOLDFAST_MAX_VALUE_BYTES", "1200000")
    assert open_parquet(body, "data/a.parquet").read_row_group(0).column(0).nbytes > 1_100_000


def test_a_footer_that_claims_too_much_is_refused_before_it_is_read() -> None:
    body = written(pa.table({"a": [1]}))
    forged = body[:-8] + (1 << 30).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(DamagedError, match=r"its footer has 1,073,741,824 bytes"):
        open_parquet(forged, "data/a.parquet")


def test_the_sizes_of_a_file_are_checked_by_its_footer_alone(small: None) -> None:
    body = written(pa.table({"number": pa.repeat(7, 130_000)}))
    footer = body[-8 - int.from_bytes(body[-8:-4], "little") :]
    with pytest.raises(DamagedError, match="a row group has"):
        open_parquet(footer, "data/a.parquet")
    body = written(pa.table({"words": [["a"], None]}))
    footer = body[-8 - int.from_bytes(body[-8:-4], "little") :]
    assert open_parquet(footer, "data/a.parquet").metadata.num_rows == 2
