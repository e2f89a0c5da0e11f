"""The net changes of a table without a key: rows are counted, and no two that differ are taken for one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.archive.scan.change_files import Files, order_of
from holdfast.archive.scan.engine import apart, open_engine
from holdfast.archive.scan.keyless import Balance, alike
from tests.support.archives.histories import SINCE, Change, history_of, write_base, write_changes
from tests.support.stores.memory_store import MemoryStore

UPTO = SINCE + 100


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    with open_engine(64 << 20, tmp_path_factory.mktemp("spill")) as opened:
        yield opened


NAN, INFINITY = float("nan"), float("inf")
LONG = "x" * 65

DIFFERENT: dict[str, tuple[pa.DataType, list[Any]]] = {
    "numbers": (pa.int64(), [0, 1, -1, None]),
    "floats": (pa.float64(), [0.0, -0.0, 1.0, NAN, INFINITY, -INFINITY, None]),
    "texts": (pa.string(), ["", "v", "s", "A", "a", "a ", "a\0", "ä", "a\u0308", LONG[:64], LONG, LONG + "y", None]),
    "bytes": (pa.binary(), [b"", b"\0", b"v", b"41", b"A", b"x" * 64, b"x" * 65, b"x" * 64 + b"y", None]),
    "truths": (pa.bool_(), [True, False, None]),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_each_value_is_told_from_all_others_and_is_like_itself(engine: duckdb.DuckDBPyConnection, what: str) -> None:
    kind, values = DIFFERENT[what]
    told = alike(pa.field("c", kind), "c")
    engine.register("incoming", pa.table({"c": pa.array(values * 2, kind)}))
    names = ", ".join(f"({expression})::{of}" for expression, of in told)
    counts = engine.execute(f"select count(*) from incoming group by {names}").fetchall()
    engine.unregister("incoming")
    assert counts == [(2,)] * len(values)


class Told:
    """What is made of changes of a table without a key."""

    def __init__(self, sql: duckdb.DuckDBPyConnection, changes: Sequence[Change], form: int = 0) -> None:
        store = MemoryStore()
        records = write_changes(store, changes, block_of=99, file_of=2, key=())
        self.balance = Balance(sql, history_of(write_base(store, [], files=1), records, UPTO, form, ()))
        self.balance.load(Files(store, [file for record in records for file in record.files]))
        self.balance.settle()
        self.picks = sql.execute("select * from picks order by all").fetchall()


def change(op: str, seq: int, text: str | None = "a", lsn: int = SINCE) -> Change:
    return Change(0, lsn, seq, op, {1: 1, 3: text})


CASES: dict[str, tuple[list[Change], list[tuple[int, str, int]]]] = {
    "a new row": ([change("I", 2)], [(0, "I", 1)]),
    "the same row thrice": ([change("I", seq) for seq in (2, 4, 6)], [(0, "I", 3)]),
    "rows that differ": ([change("I", 2), change("I", 4, "b")], [(0, "I", 1), (1, "I", 1)]),
    "a value and none": ([change("I", 2), change("D", 4, None)], [(0, "I", 1), (1, "D", 1)]),
    "one that came and went": ([change("I", 2), change("D", 4)], []),
    "more that went than came": ([change("D", 2), change("I", 4), change("D", 6), change("D", 8)], [(0, "D", 2)]),
    "one at the position": ([change("I", 2, lsn=UPTO)], []),
    "one before the snapshot": ([change("D", 2, lsn=SINCE - 1)], []),
}


@pytest.mark.parametrize("what", CASES)
def test_rows_are_counted(engine: duckdb.DuckDBPyConnection, what: str) -> None:
    changes, picks = CASES[what]
    with apart(engine):
        told = Told(engine, changes)
    assert told.picks == picks
    assert told.balance.emptied is None


def test_a_row_is_the_same_in_the_form_of_before(engine: duckdb.DuckDBPyConnection) -> None:
    """One written before a column came has that one's first value, which is 70."""
    old = Change(0, SINCE, 2, "I", {1: 1, 3: "a", 4: "dropped"})
    with apart(engine):
        told = Told(engine, [old, Change(1, SINCE, 4, "D", {1: 1, 3: "a", 7: 70})], form=1)
    assert told.picks == []


def test_what_was_before_the_last_truncation_counts_no_more(engine: duckdb.DuckDBPyConnection) -> None:
    empty = [Change(0, SINCE, seq, "T") for seq in (4, 8)]
    with apart(engine):
        told = Told(engine, [change("I", 2), empty[0], change("I", 6), empty[1], change("I", 10), change("I", 12, "b")])
    assert told.balance.emptied == order_of(SINCE, 8)
    assert told.picks == [(4, "I", 1), (5, "I", 1)]


texts = st.sampled_from(["a", "b", None, LONG, LONG + "y"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.lists(st.tuples(st.sampled_from("ID"), texts), min_size=1, max_size=8))
def test_the_counts_are_those_of_a_dictionary(
    engine: duckdb.DuckDBPyConnection, drawn: list[tuple[str, str | None]]
) -> None:
    changes = [change(op, 2 * number, text) for number, (op, text) in enumerate(drawn, 1)]
    counts: Counter[str | None] = Counter()
    for op, text in drawn:
        counts[text] += 1 if op == "I" else -1
    with apart(engine):
        found = Told(engine, changes).picks
    assert {drawn[place][1]: count if op == "I" else -count for place, op, count in found} == {
        text: count for text, count in counts.items() if count
    }
