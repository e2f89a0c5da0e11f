"""Values that are set aside in a file come back in any order, however they were put there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from holdfast.archive.scan.net_changes import Shelf

SCHEMA = pa.schema([pa.field("n", pa.int64()), pa.field("text", pa.string())])


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"n": each, "text": f"value {each}"} for each in numbers], SCHEMA)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """One of seven values in batches of different sizes, one of them empty."""
    made = Shelf(tmp_path / "shelf", SCHEMA)
    assert [made.add(rows(*each)) for each in ((0, 1, 2), (), (3,), (4, 5, 6))] == [0, 3, 3, 4]
    made.finish()
    return made


def take(shelf: Shelf, *places: int) -> list[int]:
    found = shelf.take(np.array(places, dtype=np.int64))
    assert found.schema == SCHEMA
    assert [row["text"] for row in found.to_pylist()] == [f"value {row['n']}" for row in found.to_pylist()]
    return [row["n"] for row in found.to_pylist()]


@pytest.mark.parametrize(
    "places", [(0,), (6,), (2, 3, 4), (6, 0, 3), (5, 5, 1, 5), (6, 5, 4, 3, 2, 1, 0), tuple(range(7)), ()]
)
def test_values_come_in_the_order_of_the_places_that_are_asked_for(shelf: Shelf, places: tuple[int, ...]) -> None:
    assert take(shelf, *places) == list(places)


def test_it_says_how_much_there_is(shelf: Shelf) -> None:
    assert (shelf.rows, shelf.bytes > 0) == (7, True)


def test_nothing_is_taken_before_all_is_there(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "shelf", SCHEMA)
    shelf.add(rows(1))
    with pytest.raises(RuntimeError, match="once all are there"):
        shelf.take(np.array([0]))


def test_any_places_of_any_batches_come_back(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    shelf, at = Shelf(tmp_path / "shelf", SCHEMA), 0
    for size in random.integers(0, 40, 50):
        shelf.add(rows(*range(at, at + int(size))))
        at += int(size)
    shelf.finish()
    places = random.integers(0, at, 500)
    assert take(shelf, *places.tolist()) == places.tolist()
