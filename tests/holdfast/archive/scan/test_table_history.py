"""The history of a table: which changes may count at a position, and which columns are a number's."""

from __future__ import annotations

import pytest

from holdfast.archive.format.document import TableRecord
from holdfast.archive.scan.table_history import TableHistory
from tests.support.archives.histories import FIRST_FORM

SINCE, UPTO = 0x100, 0x200


def record(first: str | None, last: str | None) -> TableRecord:
    return TableRecord(id="1", table_schema="shop", name="t", rows=1, digest="", files=(), first=first, last=last)


def history(*changes: TableRecord) -> TableHistory:
    return TableHistory(
        table="1", label="shop.t", base=(), since=SINCE, changes=changes, key=(1,), upto=UPTO, wanted=FIRST_FORM
    )


@pytest.mark.parametrize(
    ("first", "last", "counts"),
    [
        ("0/100", "0/1FF", True),
        ("0/80", "0/100", True),  # its last change is at the snapshot's own position
        ("0/80", "0/FF", False),
        ("0/1FF", "0/300", True),
        ("0/200", "0/300", False),  # what commits at the position does not count
        ("0/80", "0/300", True),
        (None, None, True),
        ("0/200", None, False),
        (None, "0/FF", False),
        (None, "0/100", True),
        ("1/0", "1/100", False),
    ],
)
def test_a_record_counts_where_it_may_hold_changes_between_the_snapshot_and_the_position(
    first: str | None, last: str | None, *, counts: bool
) -> None:
    one = record(first, last)
    assert history(one).relevant() == (one,) * counts


def test_records_stay_in_the_order_of_their_blocks() -> None:
    kept = (record("0/180", "0/190"), record(None, None), record("0/120", "0/130"))
    assert history(kept[0], record("0/1", "0/2"), *kept[1:]).relevant() == kept


@pytest.mark.parametrize(
    ("numbers", "names"),
    [
        ((1,), ["id"]),
        ((2,), ["day", "day__exact"]),
        ((6, 1), ["id", "price", "price__exact"]),
        ((7,), []),
        ((100_002,), []),
        ((), []),
    ],
)
def test_fields_of_columns_come_with_their_sidecars_in_the_order_of_the_rows(
    numbers: tuple[int, ...], names: list[str]
) -> None:
    found = history().fields(numbers)
    assert found.names == names
    assert all(field.equals(FIRST_FORM.field(field.name), check_metadata=True) for field in found)
