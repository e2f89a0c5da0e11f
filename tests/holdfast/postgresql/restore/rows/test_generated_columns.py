"""Tables whose generated columns alone came to other values are told from tables with other rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from holdfast.postgresql.restore.rows.apply import Applied
from holdfast.postgresql.restore.rows.generated_columns import (
    Apart,
    Recomputed,
    column_sets,
    has_stored,
    hash_apart,
    nothing,
    recomputed,
    sum_apart,
    with_changes,
)
from holdfast.postgresql.values.content_hash import ContentHash
from holdfast.postgresql.values.stored_columns import schema_of
from tests.support.databases.records import column, table

ID = column("id")
TWICE, NEXT, SEEN = (
    column("twice", 2, generated="s"),
    column("next", 3, generated="s"),
    column("seen", 4, generated="v"),
)
TABLE = table(ID, TWICE, NEXT, SEEN, expressions=("2 (id * 2)", "3 (id + 1)"))


def batch(*rows: tuple[int, int, int]) -> pa.RecordBatch:
    schema = schema_of(TABLE.columns)
    return pa.RecordBatch.from_pylist([dict(zip(("id", "twice", "next"), row, strict=True)) for row in rows], schema)


def apart(*rows: tuple[int, int, int]) -> Apart:
    return hash_apart(TABLE, [batch(*rows)])


def test_only_stored_columns_are_compared_apart() -> None:
    assert has_stored(TABLE)
    assert not has_stored(table(ID, SEEN))
    assert {name: [each.name for each in columns] for name, columns in column_sets(TABLE).items()} == {
        "": ["id"],
        "twice": ["twice"],
        "next": ["next"],
    }


def test_hashes_of_files_add_up_in_any_order() -> None:
    whole = apart((1, 2, 2), (2, 4, 3), (3, 6, 4))
    assert hash_apart(TABLE, [batch((3, 6, 4)), batch((2, 4, 3), (1, 2, 2))]) == whole
    assert sum_apart([apart((1, 2, 2)), apart((2, 4, 3), (3, 6, 4))]) == whole
    assert sum_apart([whole, nothing(TABLE)]) == whole
    assert whole[""].rows == 3


def test_what_is_not_known_of_all_files_is_known_of_none() -> None:
    part = {name: value for name, value in apart((1, 2, 2)).items() if name != "twice"}
    assert set(sum_apart([apart((2, 4, 3)), part])) == {"", "next"}


def test_changes_tell_of_ordinary_columns_alone() -> None:
    base, came = apart((1, 2, 2)), apart((5, 0, 0))[""]
    done = Applied(emptied=False, deleted=ContentHash(), inserted=came)
    assert with_changes(base, done) == {"": base[""] + came}
    assert with_changes(base, None) is None


def test_other_rows_are_other_rows() -> None:
    assert recomputed(TABLE, apart((1, 2, 2)), apart((2, 2, 2))) is None
    assert recomputed(TABLE, apart((1, 2, 2)), apart((1, 2, 2), (1, 2, 2))) is None


@pytest.mark.parametrize(
    ("found", "names"),
    [((1, 9, 2), ["twice"]), ((1, 2, 9), ["next"]), ((1, 9, 9), ["twice", "next"])],
)
def test_columns_that_differ_are_named_one_by_one(found: tuple[int, int, int], names: list[str]) -> None:
    told = recomputed(TABLE, apart((1, 2, 2)), apart(found))
    assert told is not None
    assert [each.name for each in told.columns] == names


def test_where_it_is_not_known_which_all_stored_ones_are_named() -> None:
    wanted = {"": apart((1, 2, 2))[""]}
    told = recomputed(TABLE, wanted, apart((1, 9, 2)))
    assert told is not None
    assert [each.name for each in told.columns] == ["twice", "next"]


def test_a_column_is_named_with_its_formula() -> None:
    first, second = Recomputed(TABLE.model_copy(update={"expressions": ("2 (id * 2)",)}), (TWICE, NEXT)).name()
    assert first.what == "values of generated column shop.orders.twice"
    assert first.reason.startswith("(id * 2) gives other values here than some rows had: a function")
    assert second.reason.startswith("its expression gives other values here")
