"""Rows of change files, made of messages written down here; the real server's are in test_changes.py."""

from __future__ import annotations

import datetime as dt
import struct
from typing import Any

import pyarrow as pa
import pytest

from holdfast.postgresql.logical.change_rows import change_rows
from holdfast.postgresql.logical.pgoutput import MessageReader, ProtocolError
from holdfast.postgresql.logical.relation_schema import ChangeForm
from holdfast.postgresql.values.decode import UnkeepableValueError
from tests.support.databases.records import column

OID, LSN = 16_385, 100
UNCHANGED = b"u"

COLUMNS = (column("id", 1), column("word", 2, "text"), column("day", 4, "date"))
KEYED = ChangeForm(OID, "shop", "orders", COLUMNS, (1,), "d")
FULL = ChangeForm(OID, "shop", "orders", COLUMNS, (1,), "f")
KEYLESS = ChangeForm(OID, "shop", "orders", COLUMNS, (), "f")

Value = str | bytes | None


def values(tag: bytes, *given: Value) -> bytes:
    cells = (
        b"n"
        if each is None
        else each
        if isinstance(each, bytes)
        else b"t" + struct.pack(">I", len(each)) + each.encode()
        for each in given
    )
    return tag + struct.pack(">H", len(given)) + b"".join(cells)


def insert(*new: Value) -> bytes:
    return b"I" + struct.pack(">I", OID) + values(b"N", *new)


def update(old: bytes, *new: Value) -> bytes:
    return b"U" + struct.pack(">I", OID) + old + values(b"N", *new)


def delete(old: bytes) -> bytes:
    return b"D" + struct.pack(">I", OID) + old


TRUNCATE = b"T" + struct.pack(">IBI", 1, 0, OID)
MARK = b"M" + struct.pack(">Bq", 1, 0) + b"holdfast\0" + struct.pack(">I", 0)


def batch(form: ChangeForm, *changes: bytes, limit: int = 1 << 20) -> pa.RecordBatch:
    """Return the change rows of one transaction at position 0/64."""
    described = b"".join(b"\1" + each.name.encode() + b"\0" + struct.pack(">Ii", 23, -1) for each in form.columns)
    relation = (
        b"R" + struct.pack(">I", OID) + b"shop\0orders\0" + form.identity.encode()
        + struct.pack(">H", len(form.columns)) + described
    )  # fmt: skip
    begin = b"B" + struct.pack(">qqI", LSN, 0, 7)
    commit = b"C\0" + struct.pack(">qqq", LSN, LSN + 10, 0)
    messages = MessageReader().read(pa.array([begin, relation, *changes, commit], pa.binary()))
    [(_, rows)] = messages.groups
    found = change_rows(messages, rows, form, limit)
    found.validate(full=True)
    assert found.schema.equals(form.schema, check_metadata=True)
    assert set(found.column("__lsn").to_pylist()) == {LSN}
    return found


def told(form: ChangeForm, *changes: bytes) -> list[tuple[Any, ...]]:
    """Return number, operation, unchanged columns and values of each row."""
    return [
        (row["__seq"], row["__op"], row["__unchanged"], *(row[each.name] for each in form.columns))
        for row in batch(form, *changes).to_pylist()
    ]


def test_rows_that_come_change_and_go_have_the_order_of_their_transaction() -> None:
    assert told(
        KEYED,
        insert("1", "a", None),
        MARK,
        update(b"", "1", "b", None),
        delete(values(b"K", "1", None, None)),
        TRUNCATE,
        insert("2", "", "2024-02-29"),
    ) == [
        (0, "I", None, 1, "a", None),
        (4, "U", None, 1, "b", None),
        (6, "D", None, 1, None, None),
        (8, "T", None, None, None, None),
        (10, "I", None, 2, "", dt.date(2024, 2, 29)),
    ]


def test_an_exceptional_value_stands_beside_its_column() -> None:
    [row] = batch(KEYED, insert("1", None, "infinity")).to_pylist()
    assert (row["day"], row["day__exact"]) == (None, "infinity")


@pytest.mark.parametrize("form", [KEYED, FULL], ids=["by key", "by whole row"])
def test_a_row_that_gets_another_key_goes_and_comes(form: ChangeForm) -> None:
    old = values(b"O", "1", "a", None) if form is FULL else values(b"K", "1", None, None)
    assert told(form, update(old, "2", "b", None)) == [
        (0, "D", None, 1, None, None),
        (1, "I", None, 2, "b", None),
    ]


def test_a_row_that_keeps_its_key_only_changes_also_where_the_whole_old_one_is_told() -> None:
    assert told(FULL, update(values(b"O", "1", "a", None), "1", "b", None)) == [(0, "U", None, 1, "b", None)]


def test_what_did_not_change_is_named_by_number_or_taken_from_the_old_row() -> None:
    assert told(KEYED, update(b"", "1", UNCHANGED, UNCHANGED), update(b"", "2", "x", UNCHANGED)) == [
        (0, "U", [2, 4], 1, None, None),
        (2, "U", [4], 2, "x", None),
    ]
    assert told(FULL, update(values(b"O", "1", "old", "2024-01-01"), "1", UNCHANGED, UNCHANGED)) == [
        (0, "U", None, 1, "old", dt.date(2024, 1, 1))
    ]
    # Of the key, too, where it is kept apart from the row.
    wide = ChangeForm(OID, "shop", "orders", COLUMNS, (2,), "d")
    assert told(wide, update(values(b"K", None, "k", None), "7", UNCHANGED, None)) == [(0, "U", None, 7, "k", None)]


def test_rows_without_a_key_go_and_come_whole() -> None:
    assert told(
        KEYLESS,
        update(values(b"O", "1", "old", None), "1", UNCHANGED, None),
        delete(values(b"O", "1", "old", None)),
    ) == [
        (0, "D", None, 1, "old", None),
        (1, "I", None, 1, "old", None),
        (2, "D", None, 1, "old", None),
    ]


def test_a_table_without_columns_has_rows_all_the_same() -> None:
    form = ChangeForm(OID, "shop", "orders", (), (), "f")
    found = batch(form, insert(), delete(values(b"O")), TRUNCATE)
    assert found.column("__op").to_pylist() == ["I", "D", "T"]
    assert found.column("__seq").to_pylist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("form", "change", "why"),
    [
        (KEYED, update(values(b"O", "1", "a", None), "1", "b", None), "not logged as its replica identity"),
        (FULL, delete(values(b"K", "1", None, None)), "not logged as its replica identity"),
        (
            KEYED,
            b"I" + struct.pack(">I", OID) + values(b"K", "1", "a", None),
            "not logged as its replica identity",
        ),
        (
            KEYED,
            b"U" + struct.pack(">I", OID) + values(b"K", "1", None, None),
            "updates of shop.orders without a new row",
        ),
        (KEYED, insert("1", "a", None) + b"x", "changes of shop.orders of another size"),
        (KEYED, insert("1", "a"), "rows of another number of columns than their table"),
        (FULL, delete(values(b"O", "1", UNCHANGED, None)), "old rows of shop.orders that are not whole"),
        (KEYLESS, update(b"", "1", "b", None), "updates of shop.orders that do not tell the old row"),
        (KEYED, update(b"", UNCHANGED, "b", None), "changes of shop.orders that do not tell the row's key"),
        (KEYED, insert("1", UNCHANGED, None), "changes of shop.orders that do not tell the row's key"),
    ],
)
def test_what_postgresql_does_not_send_is_refused(form: ChangeForm, change: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        batch(form, change)


def test_a_value_above_the_limit_is_named_with_table_and_transaction() -> None:
    with pytest.raises(UnkeepableValueError) as caught:
        batch(KEYED, insert("1", "x" * 11, None), limit=10)
    assert str(caught.value).startswith(
        'shop.orders, a row changed by a transaction at or after 0/64, column "word": a value of 11 bytes'
    )
