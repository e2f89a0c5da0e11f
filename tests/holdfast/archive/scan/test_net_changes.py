"""Net changes and the rows at every position, against rows in a dictionary that the same statements were made on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from holdfast.archive.scan.engine import open_engine
from holdfast.archive.scan.merge_on_read import as_of
from holdfast.archive.scan.net_changes import net_changes, net_schema
from holdfast.archive.scan.table_history import TableHistory
from holdfast.common.errors import DamagedError
from holdfast.common.field_ids import COUNT, OP, UNCHANGED
from holdfast.storage import open_store
from tests.support.archives.histories import Change, Row, history_of, write_base, write_changes
from tests.support.archives.table_models import KEY, KEY_FIELDS, MOVES, Model, by_number, filled, key_of, models

MEMORY = 64 << 20


def apply_net(history: TableHistory, base: list[Row], batches: Iterable[pa.RecordBatch], form: int) -> Counter[Any]:
    """Do with the snapshot's rows what net changes say, checking each."""
    old = Counter(filled(row, form) for row in base)
    if not history.key:
        for batch in batches:
            for row in by_number(batch):
                if row[OP] == "T":
                    old.clear()
                    continue
                assert row[COUNT] > 0
                old[filled(row, form)] += row[COUNT] * (1 if row[OP] == "I" else -1)
                assert old[filled(row, form)] >= 0
        return +old
    table = {key_of(row): dict(filled(row, form)) for row in base}
    touched = set()
    for number, batch in enumerate(batches):
        for row in by_number(batch):
            key = key_of(row)
            if row[OP] == "T":
                assert (number, batch.num_rows) == (0, 1)
                table.clear()
                base = []
                continue
            assert key not in touched
            touched.add(key)
            new = dict(filled(row, form))
            if row[OP] == "D":
                assert set(new.items()) >= {(n, None) for n in new if n not in KEY_FIELDS}
                del table[key]
            else:
                assert (row[OP] == "U") == bool(row[UNCHANGED])
                for each in row[UNCHANGED] or ():
                    assert new[each] is None
                    new[each] = table[key][each]
                table[key] = new
    return Counter(tuple(row.items()) for row in table.values())


def check(tmp_path: Path, base: list[Row], model: Model, block_of: int, file_of: int) -> None:
    with TemporaryDirectory(dir=tmp_path) as place:
        store = open_store(f"{place}/archive")
        spill = Path(place) / "spill"
        spill.mkdir()
        key = KEY if model.keyed else ()
        record = write_base(store, base, files=2)
        records = write_changes(store, model.changes, block_of=block_of, file_of=file_of, key=key)
        with open_engine(MEMORY, spill) as engine:  # which serves one after the other
            for position, form, wanted in model.seen:
                history = history_of(record, records, position, form, key)
                expected = Counter(filled(row, form) for row in wanted)
                batches = list(net_changes(engine, store, history, spill=spill))
                assert all(batch.schema.equals(net_schema(history), check_metadata=True) for batch in batches)
                assert apply_net(history, base, batches, form) == expected
                found = list(as_of(store, history, memory_bytes=MEMORY, spill=spill))
                assert all(batch.schema.equals(history.wanted, check_metadata=True) for batch in found)
                assert Counter(filled(row, form) for batch in found for row in by_number(batch)) == expected
        assert list(spill.iterdir()) == []


SETTINGS = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
FEW = settings(SETTINGS, max_examples=4)
"""With seed 6 they have changes of every kind, in two forms, up to five moments."""
sizes = st.sampled_from([(1, 100), (2, 2), (100, 1), (100, 100)])


@pytest.mark.slow
@seed(6)
@FEW
@given(made=models(keyed=True), size=sizes)
def test_rows_with_a_key_are_those_of_the_model_at_every_position(
    tmp_path: Path, made: tuple[list[Row], Model], size: tuple[int, int]
) -> None:
    check(tmp_path, *made, *size)


@pytest.mark.slow
@seed(6)
@FEW
@given(made=models(keyed=True, kinds=MOVES), size=sizes)
def test_values_that_are_not_logged_again_follow_rows_that_move(
    tmp_path: Path, made: tuple[list[Row], Model], size: tuple[int, int]
) -> None:
    check(tmp_path, *made, *size)


@pytest.mark.slow
@seed(6)
@FEW
@given(made=models(keyed=False), size=sizes)
def test_rows_without_a_key_are_those_of_the_model_at_every_position(
    tmp_path: Path, made: tuple[list[Row], Model], size: tuple[int, int]
) -> None:
    check(tmp_path, *made, *size)


@pytest.mark.exhaustive
@settings(SETTINGS, max_examples=40, derandomize=True)
@given(made=st.one_of(models(keyed=True), models(keyed=True, kinds=MOVES), models(keyed=False)), size=sizes)
def test_so_are_those_of_many_more(tmp_path: Path, made: tuple[list[Row], Model], size: tuple[int, int]) -> None:
    check(tmp_path, *made, *size)


@pytest.mark.slow
@pytest.mark.parametrize("from_base", [True, False])
def test_values_follow_a_row_through_many_moves_and_others_that_took_its_place(tmp_path: Path, from_base: bool) -> None:
    def row(number: int) -> Row:
        return {
            1: number,
            2: None,
            100_002: "infinity",
            3: f"text {number}",
            4: f"note {number}",
            6: None,
            100_006: None,
        }

    base = [row(1), row(2)] if from_base else []
    model = Model({key_of(each): dict(each) for each in base})
    for number in () if from_base else (1, 2):
        model.insert(row(number))
    model.commit()
    first, second, free = ((number, None, "infinity") for number in (1, 2, 9))
    for turn in range(11):  # an odd number of swaps, by way of a free key
        model.update(first, {1: 9}, repeat=False)
        model.update(second, {1: 1}, repeat=False)
        model.update(free, {1: 2, **({3: "touched"} if turn == 4 else {})}, repeat=False)
        if turn == 7:
            model.commit()
    for number in range(3, 40):
        model.update((2 if number == 3 else number - 1, None, "infinity"), {1: number}, repeat=False)
    model.commit()
    model.insert(row(2))
    model.commit()
    check(tmp_path, base, model, block_of=2, file_of=30)


ROW = {1: 1, 100_002: "infinity"}
OTHER = {1: 2, 100_002: "infinity"}


@pytest.mark.parametrize(
    "changes",
    [
        [("I", ROW, (3,))],
        [("U", ROW, (3,))],
        [("I", ROW, ()), ("T", {}, ()), ("U", ROW, (3,))],
        [("D", ROW, ()), ("I", OTHER, (3,))],
    ],
    ids=["half a move", "no row", "a row that went with all", "a move of no row"],
)
def test_changes_that_lack_what_they_build_on_are_damage(
    tmp_path: Path, changes: list[tuple[str, Row, tuple[int, ...]]]
) -> None:
    store = open_store(str(tmp_path / "archive"))
    base = write_base(store, [], files=1)
    seqs = [4, 5] if changes[0][0] == "D" else [2, 4, 6]  # the halves of a move follow each other
    lost = [Change(0, 1000, seq, *change) for seq, change in zip(seqs, changes, strict=False)]
    records = write_changes(store, lost, block_of=9, file_of=9, key=KEY)
    (spill := tmp_path / "spill").mkdir()
    with pytest.raises(DamagedError, match=r"shop\.orders"):
        list(as_of(store, history_of(base, records, 2000, 0, KEY), memory_bytes=MEMORY, spill=spill))
    assert list(spill.iterdir()) == []


def test_taking_away_a_row_that_is_not_there_is_damage(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "archive"))
    base = write_base(store, [{1: 1}], files=1)
    records = write_changes(store, [Change(0, 1000, seq, "D", {1: 1}) for seq in (2, 4)], block_of=1, file_of=9, key=())
    history = history_of(base, records, 2000, 0, ())
    with pytest.raises(DamagedError, match=r"a deleted row of shop\.orders is not in its snapshot"):
        list(as_of(store, history, memory_bytes=MEMORY, spill=tmp_path))
