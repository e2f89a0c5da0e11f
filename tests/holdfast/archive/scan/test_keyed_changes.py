"""Changes of a keyed table that count in the end: which rows are given out, and where values they lack are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pytest

from holdfast.archive.scan.change_files import Files, order_of
from holdfast.archive.scan.engine import apart, open_engine
from holdfast.archive.scan.keyed_changes import Touched
from holdfast.archive.scan.table_history import TableHistory
from holdfast.common.errors import DamagedError
from tests.support.archives.histories import SINCE, Change, Row, history_of, write_base, write_changes
from tests.support.stores.memory_store import MemoryStore

KEY = (1,)
UPTO = SINCE + 100


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    with open_engine(64 << 20, tmp_path_factory.mktemp("spill")) as opened:
        yield opened


@pytest.fixture
def sql(engine: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    with apart(engine):
        yield engine


class Told:
    """What is made of changes, and of the rows of a snapshot."""

    def __init__(
        self,
        sql: duckdb.DuckDBPyConnection,
        changes: Sequence[Change],
        base: Sequence[Row] = (),
        *,
        form: int = 0,
        key: tuple[int, ...] = KEY,
    ) -> None:
        self._sql = sql
        store = MemoryStore()
        self._base = write_base(store, base, files=2)
        records = write_changes(store, changes, block_of=99, file_of=2, key=key)
        self.history: TableHistory = history_of(self._base, records, UPTO, form, key)
        self._store = store
        self.touched = Touched(sql, self.history)
        self.touched.load(Files(store, [file for record in records for file in record.files]))
        self.touched.settle()

    def find_in_base(self) -> list[tuple[Any, ...]]:
        assert self.touched.needs_base()
        self.touched.find_in_base(Files(self._store, self._base.files))
        return self.rows("base_pieces")

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self._sql.execute(f"select * from {table} order by all").fetchall()

    def picks(self) -> list[tuple[Any, ...]]:
        return self.rows("picks")

    def deleted(self) -> list[dict[str, Any]]:
        return [row for batch in self.touched.deleted(2) for row in batch.to_pylist()]


def insert(seq: int, key: int, lsn: int = SINCE) -> Change:
    return Change(0, lsn, seq, "I", {1: key, 3: "text", 4: "note"})


def update(seq: int, key: int, unchanged: tuple[int, ...] = (), lsn: int = SINCE) -> Change:
    row = {1: key, 3: "text", 4: "note"}
    return Change(0, lsn, seq, "U", {number: row[number] for number in row if number not in unchanged}, unchanged)


def delete(seq: int, key: int, lsn: int = SINCE) -> Change:
    return Change(0, lsn, seq, "D", {1: key})


def moved(seq: int, old: int, new: int, unchanged: tuple[int, ...] = ()) -> tuple[Change, Change]:
    row = {1: new, 3: "text", 4: "note"}
    kept = {number: row[number] for number in row if number not in unchanged}
    return delete(seq, old), Change(0, SINCE, seq + 1, "I", kept, unchanged)


CASES: dict[str, tuple[tuple[Change, ...], list[tuple[Any, ...]], list[int]]] = {
    "a new row": ((insert(2, 1),), [(0, "I", None)], []),
    "the last of several": ((update(2, 1), update(4, 2), update(6, 1)), [(1, "I", None), (2, "I", None)], []),
    "the last by its place in the log, not in the file": ((update(6, 1), update(4, 1)), [(0, "I", None)], []),
    "one that is gone": ((update(2, 1), delete(4, 1)), [], [1]),
    "one that came and went": ((insert(2, 1), delete(4, 1)), [], []),
    "one that went and came again": ((delete(2, 1), insert(4, 1)), [(1, "I", None)], []),
    "one that went, came and went": ((delete(2, 1), insert(4, 1), delete(6, 1)), [], [1]),
    "many that are gone": (tuple(delete(2 * key, key) for key in range(1, 6)), [], [1, 2, 3, 4, 5]),
    "a value that stays as it is in the snapshot": ((update(2, 1, (3,)),), [(0, "U", [3])], []),
    "several such": ((update(2, 1, (3, 4)), update(4, 1, (4, 3))), [(1, "U", [3, 4])], []),
    "one at the position": ((insert(2, 1, lsn=UPTO), insert(2, 2, lsn=UPTO - 1)), [(1, "I", None)], []),
    "one before the snapshot": ((insert(2, 1, lsn=SINCE - 1), delete(2, 2, lsn=SINCE - 1)), [], []),
    "one that was moved whole": (moved(2, 1, 2), [(1, "I", None)], [1]),
}


@pytest.mark.parametrize("what", CASES)
def test_the_last_change_of_each_key_counts(sql: duckdb.DuckDBPyConnection, what: str) -> None:
    changes, picks, deleted = CASES[what]
    told = Told(sql, changes)
    assert told.picks() == picks
    assert sorted(row["id"] for row in told.deleted()) == deleted
    assert not told.touched.needs_base()
    assert told.touched.emptied is None


def test_the_value_of_an_earlier_change_is_told_by_its_place(sql: duckdb.DuckDBPyConnection) -> None:
    told = Told(sql, [update(2, 1, (4,)), update(4, 1, (3,)), update(6, 1, (3, 4))])
    assert told.rows("change_pieces") == [(0, 2, 3), (1, 2, 4)]
    assert told.picks() == [(2, "I", None)]


def test_only_what_no_change_has_is_taken_from_the_snapshot(sql: duckdb.DuckDBPyConnection) -> None:
    told = Told(sql, [update(2, 1, (3,)), update(4, 1, (3, 4))])
    assert told.rows("change_pieces") == [(0, 1, 4)]
    assert told.picks() == [(1, "U", [3])]


def test_a_row_that_took_a_place_again_has_nothing_of_the_one_before(sql: duckdb.DuckDBPyConnection) -> None:
    told = Told(sql, [update(2, 1), delete(4, 1), insert(6, 1), update(8, 1, (3,))])
    assert told.rows("change_pieces") == [(2, 3, 3)]


def test_values_of_a_row_that_moved_are_found_at_the_key_it_had(sql: duckdb.DuckDBPyConnection) -> None:
    base: list[Row] = [{1: number, 3: f"old {number}"} for number in (7, 8, 9)]
    changes = [*moved(2, 9, 2, (3,)), *moved(4, 2, 3, (3, 4)), *moved(6, 8, 9, (3,))]
    told = Told(sql, changes, base)
    assert told.picks() == [(3, "I", None), (5, "I", None)]
    assert told.rows("change_pieces") == [(1, 3, 4)]
    assert told.find_in_base() == [(1, 5, 3), (2, 3, 3)]
    assert sorted(row["id"] for row in told.deleted()) == [8]


def test_a_row_that_came_back_to_its_key_is_as_in_the_snapshot(sql: duckdb.DuckDBPyConnection) -> None:
    told = Told(sql, [*moved(2, 1, 2, (3,)), *moved(4, 2, 1, (3,))], [{1: 1, 3: "old"}])
    assert told.picks() == [(3, "U", [3])]
    assert not told.touched.needs_base()


def test_columns_that_are_not_wanted_are_not_looked_for(sql: duckdb.DuckDBPyConnection) -> None:
    told = Told(sql, [update(2, 1, (4,))], form=1)  # which has no column 4
    assert told.picks() == [(0, "I", None)]


def test_a_key_of_several_columns_is_told_by_all_of_them_and_their_sidecars(sql: duckdb.DuckDBPyConnection) -> None:
    rows: list[Row] = [{1: 1, 100_002: "infinity"}, {1: 1, 100_002: "-infinity"}, {1: 1}]
    changes = [Change(0, SINCE, 2 + 2 * number, "D", row) for number, row in enumerate(rows * 2)]
    told = Told(sql, changes, key=(1, 2))
    assert sorted(str(row["day__exact"]) for row in told.deleted()) == ["-infinity", "None", "infinity"]
    assert {tuple(row) for row in told.deleted()} == {("id", "day", "day__exact")}


def test_what_was_before_the_last_truncation_counts_no_more(sql: duckdb.DuckDBPyConnection) -> None:
    empty = [Change(0, SINCE, seq, "T") for seq in (4, 8)]
    told = Told(sql, [insert(2, 1), empty[0], insert(6, 2), empty[1], insert(10, 3), delete(12, 3), insert(14, 4)])
    assert told.touched.emptied == order_of(SINCE, 8)
    assert told.picks() == [(6, "I", None)]
    assert told.deleted() == []


def test_a_truncation_beyond_the_position_does_not_count(sql: duckdb.DuckDBPyConnection) -> None:
    told = Told(sql, [delete(2, 1), Change(0, UPTO, 2, "T")])
    assert told.touched.emptied is None
    assert [row["id"] for row in told.deleted()] == [1]


DAMAGED: dict[str, tuple[Sequence[Change], str]] = {
    "a move without its first half": (
        [Change(0, SINCE, 2, "I", {1: 1}, (3,))],
        "a row was moved to another key, and what it was before is not there",
    ),
    "a value that went with all rows": (
        [insert(2, 1), Change(0, SINCE, 4, "T"), update(6, 1, (3,))],
        "values of a row are in none of its changes",
    ),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_changes_that_do_not_fit_together_are_damage(sql: duckdb.DuckDBPyConnection, what: str) -> None:
    changes, why = DAMAGED[what]
    with pytest.raises(DamagedError, match=rf"^the archive's changes of shop\.orders do not fit together: {why}$"):
        Told(sql, changes)


def test_a_moved_row_that_is_not_in_the_snapshot_is_damage(sql: duckdb.DuckDBPyConnection) -> None:
    told = Told(sql, [*moved(2, 9, 2, (3,)), *moved(4, 8, 3, (3,))], [{1: 8, 3: "old"}])
    with pytest.raises(DamagedError, match="do not fit together: 1 rows that were moved are not in the snapshot"):
        told.find_in_base()
