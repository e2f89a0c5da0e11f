"""Changes that were put together are the same changes: sorted, every one of them once, and with the same outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from itertools import groupby, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from holdfast.archive.files.blocks import read_batches, write_parquet
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.maintenance.compaction import FormRun
from holdfast.archive.scan.merge import EVERYTHING, Merge, _bounds, split_keys
from holdfast.archive.scan.merge_on_read import as_of
from holdfast.common.errors import DamagedError
from holdfast.common.field_ids import LSN, SEQ, numbered
from holdfast.common.lsn import parse_position, show_position
from holdfast.storage import ObjectStore, open_store
from tests.support.archives.histories import FORMS, Change, Row, change_schema, history_of, write_base, write_changes
from tests.support.archives.table_models import KEY, MOVES, Model, by_number, filled, models

pytestmark = pytest.mark.slow

MEMORY = 64 << 20
SETTINGS = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
FEW = settings(SETTINGS, max_examples=4)
"""With seed 6 they have changes of every kind, in two forms, up to five moments."""


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path / "archive"))


def put_together(
    store: ObjectStore, records: Sequence[TableRecord], spill: Path, *, memory: int, pieces: int, name: str
) -> TableRecord:
    """Return what records of one form become."""
    run = FormRun(0, tuple(records))
    ranges = split_keys(store, run.files, run.key[0], pieces) if run.key and pieces > 1 else (EVERYTHING,)
    files: list[FileRecord] = []
    for number, within in enumerate(ranges):
        merge = Merge(store, run.files, run.key, within, memory_bytes=memory)
        files += merge.write(store, f"data/shop_db/1/changes/{name}/{number}", spill)
    return run.record(files)


def written(store: ObjectStore, record: TableRecord) -> list[dict[int, Any]]:
    return [row for file in record.files for batch in read_batches(store, file) for row in by_number(batch)]


def form_of(store: ObjectStore, record: TableRecord) -> list[str]:
    with store.open_read(record.files[0].path) as file:
        names: list[str] = pq.read_schema(file).names
    return names


def joined_at_random(
    store: ObjectStore, records: Sequence[TableRecord], spill: Path, draw: st.DataObject
) -> tuple[TableRecord, ...]:
    """Join some neighbours of one form, as compactions do: now these, now those."""
    name = draw.draw(st.uuids()).hex
    found: list[TableRecord] = []
    for _, same in groupby(records, key=lambda record: form_of(store, record)):
        left = list(same)
        while left:
            count = draw.draw(st.integers(1, len(left)))
            memory, pieces = draw.draw(st.sampled_from([(MEMORY, 1), (200, 1), (MEMORY, 3), (300, 2)]))
            some, left = left[:count], left[count:]
            stem = f"{name}-{len(found)}"
            found.append(put_together(store, some, spill, memory=memory, pieces=pieces, name=stem))
    return tuple(found)


def outcome(store: ObjectStore, history: Any, spill: Path, form: int) -> Counter[Any]:
    batches = as_of(store, history, memory_bytes=MEMORY, spill=spill)
    return Counter(filled(row, form) for batch in batches for row in by_number(batch))


def check(tmp_path: Path, base: list[Row], model: Model, draw: st.DataObject) -> None:
    with TemporaryDirectory(dir=tmp_path) as place:
        store = open_store(f"{place}/archive")
        spill = Path(place) / "spill"
        spill.mkdir()
        key = KEY if model.keyed else ()
        record = write_base(store, base, files=1)
        records = write_changes(store, model.changes, block_of=1, file_of=draw.draw(st.sampled_from([1, 3])), key=key)
        once = joined_at_random(store, records, spill, draw)
        twice = joined_at_random(store, once, spill, draw)
        for found in (once, twice):
            assert sum(each.rows for each in found) == sum(each.rows for each in records)
            for position, form, wanted in model.seen:
                history = history_of(record, found, position, form, key)
                assert outcome(store, history, spill, form) == Counter(filled(row, form) for row in wanted)
        assert list(spill.iterdir()) == []


@pytest.mark.slow
@seed(6)
@FEW
@given(made=models(keyed=True), draw=st.data())
def test_changes_with_a_key_have_the_same_outcome_at_every_position(
    tmp_path: Path, made: tuple[list[Row], Model], draw: st.DataObject
) -> None:
    check(tmp_path, *made, draw)


@pytest.mark.slow
@seed(6)
@FEW
@given(made=models(keyed=True, kinds=MOVES), draw=st.data())
def test_values_that_are_not_logged_again_are_found_in_joined_changes(
    tmp_path: Path, made: tuple[list[Row], Model], draw: st.DataObject
) -> None:
    check(tmp_path, *made, draw)


@pytest.mark.slow
@seed(6)
@FEW
@given(made=models(keyed=False), draw=st.data())
def test_changes_without_a_key_have_the_same_outcome_at_every_position(
    tmp_path: Path, made: tuple[list[Row], Model], draw: st.DataObject
) -> None:
    check(tmp_path, *made, draw)


@pytest.mark.exhaustive
@settings(SETTINGS, max_examples=40, derandomize=True)
@given(
    made=st.one_of(models(keyed=True), models(keyed=True, kinds=MOVES), models(keyed=False)),
    draw=st.data(),
)
def test_so_have_many_more(tmp_path: Path, made: tuple[list[Row], Model], draw: st.DataObject) -> None:
    check(tmp_path, *made, draw)


def many_changes(count: int, keys: int) -> list[Change]:
    """Changes of rows in turn, a transaction each."""
    return [
        Change(0, 1000 + 10 * number, 2, "U", {1: number * 7 % keys, 100_002: "infinity", 3: "x" * (number % 50)})
        for number in range(count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("memory", "pieces"),
    [
        (MEMORY, 1),
        pytest.param(MEMORY, 4, marks=pytest.mark.exhaustive),
        pytest.param(20_000, 1, marks=pytest.mark.exhaustive),
        (20_000, 4),
    ],
)
def test_changes_are_sorted_by_key_and_position_and_each_is_there_once(
    store: ObjectStore, tmp_path: Path, memory: int, pieces: int
) -> None:
    records = write_changes(store, many_changes(3000, 40), block_of=100, file_of=60, key=KEY)
    before = [row for record in records for row in written(store, record)]
    joined = put_together(store, records, tmp_path, memory=memory, pieces=pieces, name="joined")
    after = written(store, joined)
    assert [(row[1], row[LSN], row[SEQ]) for row in after] == sorted((row[1], row[LSN], row[SEQ]) for row in before)
    assert sorted(after, key=lambda row: row[LSN]) == before
    assert (joined.first, joined.last) == (show_position(1000), show_position(1000 + 29990))
    assert [file.key_range is not None for file in joined.files] == [True] * len(joined.files)
    ranges = [(int(low), int(high)) for low, high in (file.key_range or ("", "") for file in joined.files)]
    assert ranges == sorted(ranges)
    assert all(before[1] < after[0] for before, after in pairwise(ranges))
    assert len(ranges) == pieces


def test_rows_without_a_value_in_their_key_are_in_one_range_only(store: ObjectStore) -> None:
    values = pa.array([3, None, 1, 2, None, 3, 4])
    records = write_changes(store, many_changes(100, 5), block_of=100, file_of=100, key=KEY)
    ranges = split_keys(store, [file for record in records for file in record.files], 1, 3)
    chosen = [each.has(values).to_pylist() for each in ranges]
    counts = [sum(bool(each) for each in column) for column in zip(*chosen, strict=True)]
    assert len(ranges) == 3
    assert counts == [1] * len(values)


def test_a_row_that_was_changed_more_often_than_fits_is_sorted_all_the_same(store: ObjectStore, tmp_path: Path) -> None:
    records = write_changes(store, many_changes(2000, 1), block_of=500, file_of=500, key=KEY)
    joined = put_together(store, records, tmp_path, memory=5_000, pieces=3, name="joined")
    assert [row[LSN] for row in written(store, joined)] == [1000 + 10 * number for number in range(2000)]


def test_files_of_another_form_than_they_should_have_are_damage(store: ObjectStore, tmp_path: Path) -> None:
    changes = [Change(0, 1000, 2, "I", {1: 1}), Change(1, 1010, 2, "I", {1: 2})]
    records = write_changes(store, changes, block_of=1, file_of=1, key=KEY)
    with pytest.raises(DamagedError, match="does not have the columns"):
        put_together(store, records, tmp_path, memory=MEMORY, pieces=1, name="joined")


def test_changes_that_get_lost_are_noticed_before_a_commit(store: ObjectStore) -> None:
    records = write_changes(store, many_changes(10, 3), block_of=5, file_of=5, key=KEY)
    run = FormRun(0, records)
    with pytest.raises(DamagedError, match=r"5 changes of shop\.orders were written where 10 are"):
        run.record(records[0].files)
    assert parse_position(run.record(run.files).last or "") == 1090


@pytest.mark.parametrize(
    "values",
    [
        pa.array([True, False, None]),
        pa.array([2, -1, None, 7], pa.int16()),
        pa.array([1.5, float("nan"), None, -0.0, float("inf")], pa.float32()),
        pa.array([3, None, -4], pa.date32()),
        pa.array([3, None, 4], pa.time64("us")),
        pa.array([3, None, -4], pa.timestamp("us", "UTC")),
        pa.array([Decimal("1.50"), None, Decimal("-2.00")], pa.decimal128(10, 2)),
        pa.array(["b", None, "a", "é", ""]),
        pa.array([b"b", None, b"", b"\xff"]),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("memory", [pytest.param(MEMORY, marks=pytest.mark.exhaustive), 100])
def test_keys_of_every_type_are_sorted_and_split(
    store: ObjectStore, tmp_path: Path, values: pa.Array, memory: int
) -> None:
    form = pa.schema([numbered("key", values.type, 1)])
    count = 20 * len(values)
    keys = pa.chunked_array([values] * 20).combine_chunks()
    extra = [
        pa.array(range(1000, 1000 + count)),
        pa.repeat(2, count),
        pa.repeat("U", count),
        pa.nulls(count, pa.list_(pa.int32())),
    ]
    batch = pa.RecordBatch.from_arrays([keys, *extra], schema=change_schema(form))
    files = tuple(write_parquet(store, "data/shop_db/1/changes/a/0", batch.schema, [batch], key="key"))
    record = TableRecord(id="1", table_schema="s", name="t", rows=count, digest="", files=files, key=(1,))
    joined = put_together(store, [record], tmp_path, memory=memory, pieces=2, name="joined")
    found = pa.chunked_array([part.column(0) for file in joined.files for part in read_batches(store, file)])
    whole = pa.concat_arrays(found.chunks)
    assert whole.null_count == keys.null_count
    assert len(whole) == count
    # Each value stands in one place, together with all that are the same.
    assert len(pc.run_end_encode(whole).values) == len(values)


def test_an_empty_file_among_others_changes_nothing(store: ObjectStore, tmp_path: Path) -> None:
    records = write_changes(store, many_changes(10, 3), block_of=10, file_of=10, key=KEY)
    schema = change_schema(FORMS[0])
    empty = tuple(write_parquet(store, "data/shop_db/1/changes/empty/0", schema, []))
    with_empty = records[0].model_copy(update={"files": (*empty, *records[0].files)})
    joined = put_together(store, [with_empty], tmp_path, memory=MEMORY, pieces=1, name="joined")
    assert len(written(store, joined)) == 10
    nothing = records[0].model_copy(update={"files": empty, "rows": 0})
    assert put_together(store, [nothing], tmp_path, memory=MEMORY, pieces=1, name="nothing").files == ()


@pytest.mark.parametrize("sample", [[], [[]], [[None, None]], [[None], [3, 3]]])
def test_nothing_is_cut_where_all_values_are_alike_or_none_is_known(sample: list[list[int | None]]) -> None:
    assert _bounds([pa.array(each, pa.int64()) for each in sample], 4) == []


def test_each_range_has_a_value_however_they_are_spread() -> None:
    for values in ([1, 1, 1, 1, 1, 2], [1, 2], [1] * 100 + [5], [3, None, 1, 2], list(range(100))):
        bounds = [bound[0].as_py() for bound in _bounds([pa.array(values, pa.int64())], 4)]
        known = sorted({each for each in values if each is not None})
        assert bounds == sorted(set(bounds))
        assert known[0] < bounds[0]
        assert set(bounds) <= set(known)


@pytest.mark.parametrize("ids", [[None] * 400, [7] * 400, [None, 7] * 200, [*range(200), *[7] * 200]])
def test_keys_that_hardly_differ_are_sorted_in_little_memory(
    store: ObjectStore, tmp_path: Path, ids: list[int | None]
) -> None:
    """A first column without values, as where all of them are in the exact column, or with a single one."""
    changes = [Change(0, 1000 + 10 * n, 2, "U", {1: each, 100_002: f"k{n % 7}"}) for n, each in enumerate(ids)]
    records = write_changes(store, changes, block_of=50, file_of=50, key=KEY)
    joined = put_together(store, records, tmp_path, memory=2000, pieces=3, name="joined")
    after = [(row.get(1), row[LSN]) for row in written(store, joined)]
    assert Counter(after) == Counter((each, 1000 + 10 * n) for n, each in enumerate(ids))
    first = [each for each, _ in after]
    assert first == sorted(first, key=lambda each: (each is None, each or 0))
    assert list(tmp_path.glob("spill*")) == []
