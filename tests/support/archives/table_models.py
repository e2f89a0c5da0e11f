"""A table in a dictionary, statements on it at random, and what the log of a database says of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from holdfast.common.field_ids import field_id, number_of
from tests.support.archives.histories import FORMS, MISSING, SINCE, Change, Row, numbers

KEY = (1, 2)
KEY_FIELDS = (1, 2, 100_002)
DAYS = [(None, "infinity"), (date(2026, 3, 1), None)]

Key = tuple[Any, ...]


def key_of(row: Row) -> Key:
    return tuple(row.get(each) for each in KEY_FIELDS)


@dataclass
class Model:
    """A table: what statements do to its rows, and what the log says of them."""

    rows: dict[Key, Row]
    keyed: bool = True
    form: int = 0
    lsn: int = SINCE
    changes: list[Change] = field(default_factory=list)
    seq: int = 0
    seen: list[tuple[int, int, list[Row]]] = field(default_factory=list)
    """After each transaction: the position behind it, the form, the rows."""

    def log(self, op: str, row: Row, unchanged: Iterable[int] = (), *, second: bool = False) -> None:
        self.seq += 1 if second else 2 - self.seq % 2
        kept = {number: value for number, value in row.items() if number_of(number) not in unchanged}
        there = numbers(FORMS[self.form])
        row = {number: value for number, value in kept.items() if number in there}
        self.changes.append(Change(self.form, self.lsn, self.seq, op, row, tuple(unchanged)))

    def insert(self, row: Row) -> None:
        if key_of(row) not in self.rows:
            self.rows[key_of(row)] = row
            self.log("I", row)

    def delete(self, key: Key) -> None:
        old = self.rows.pop(key)
        self.log("D", dict(zip(KEY_FIELDS, key, strict=True)) if self.keyed else old)

    def update(self, key: Key, values: Row, repeat: bool) -> None:
        """Change values of a row; of its texts those that stay are logged only if `repeat`."""
        old = self.rows[key]
        new = {**old, **values}
        if key_of(new) != key and key_of(new) in self.rows:
            return
        del self.rows[key]
        self.rows[key_of(new)] = new
        large = [number for number in (3, 4) if number in numbers(FORMS[self.form]) and number not in values]
        unchanged = [] if repeat or not self.keyed else large
        if not self.keyed or key_of(new) != key:
            self.log("D", dict(zip(KEY_FIELDS, key, strict=True)) if self.keyed else old)
            self.log("I", new, unchanged, second=True)
        else:
            self.log("U", new, unchanged)

    def truncate(self) -> None:
        self.rows.clear()
        self.log("T", {})

    def alter(self) -> None:
        if self.form == 0:
            self.form = 1
            for row in self.rows.values():
                row.pop(4, None)
                row[7] = MISSING[7].as_py()

    def commit(self) -> None:
        self.lsn += 10
        self.seq = 0
        self.seen.append((self.lsn, self.form, [dict(row) for row in self.rows.values()]))


texts = st.one_of(st.none(), st.sampled_from(["", "a", "b" * 200, "ü"]))
prices = st.sampled_from([(None, None), (None, "NaN"), ("1.50", None), ("-2.25", None)])


@st.composite
def rows(draw: st.DrawFn, keys: int = 4) -> Row:
    day, exact = draw(st.sampled_from(DAYS))
    price, price_exact = draw(prices)
    return {
        1: draw(st.integers(1, keys)), 2: day, 100_002: exact, 3: draw(texts), 4: draw(texts),
        6: None if price is None else Decimal(price), 100_006: price_exact, 7: draw(st.integers(1, 2)),
    }  # fmt: skip


KINDS = ("insert", "insert", "update", "update", "move", "delete", "reinsert", "truncate", "alter")
MOVES = ("shift", "shift", "shift", "touch", "touch", "delete", "insert")
"""Rows go to other keys and leave their texts behind, but for one now and then."""


def act(draw: st.DrawFn, model: Model, kinds: tuple[str, ...]) -> None:
    kind = draw(st.sampled_from(kinds))
    if kind == "insert":
        model.insert(_in_form(model, draw(rows())))
    elif kind == "truncate" and draw(st.booleans()):
        model.truncate()
    elif kind == "alter" and draw(st.booleans()):
        model.alter()
    elif model.rows:
        change(draw, model, kind, draw(st.sampled_from(sorted(model.rows, key=repr))))


def change(draw: st.DrawFn, model: Model, kind: str, key: Key) -> None:
    """Do something to a row."""
    if kind == "delete":
        model.delete(key)
    elif kind == "reinsert":
        old = model.rows[key]
        model.delete(key)
        model.insert(dict(old))
    elif kind == "shift":
        model.update(key, {1: draw(st.integers(1, 4))}, repeat=False)
    elif kind == "touch":
        model.update(key, {draw(st.sampled_from([3, 4])): draw(texts)}, repeat=False)
    else:
        new = _in_form(model, draw(rows(keys=6)))
        some = draw(st.sets(st.sampled_from([3, 4, 6, 7]))) | ({1, 2} if kind == "move" else set())
        values = {number: value for number, value in new.items() if number_of(number) in some}
        model.update(key, values, draw(st.booleans()))


def _in_form(model: Model, row: Row) -> Row:
    there = numbers(FORMS[model.form])
    return {number: value for number, value in row.items() if number in there}


@st.composite
def models(draw: st.DrawFn, *, keyed: bool, kinds: tuple[str, ...] = KINDS) -> tuple[list[Row], Model]:
    base: dict[Key, Row] = {}
    for row in draw(st.lists(rows(), min_size=2 if kinds is MOVES else 0, max_size=5)):
        row.pop(7)
        base[key_of(row)] = row
    model = Model({key: dict(row) for key, row in base.items()}, keyed)
    model.seen.append((SINCE, 0, list(base.values())))
    for _ in range(draw(st.integers(1, 4))):
        for _ in range(draw(st.integers(1, 5))):
            act(draw, model, kinds)
        model.commit()
    return list(base.values()), model


def filled(row: Row, form: int) -> tuple[tuple[int, Any], ...]:
    """Return a row as its values in a form, in order, to be compared."""
    return tuple(
        (number, row.get(number, MISSING[7].as_py() if number == 7 else None)) for number in numbers(FORMS[form])
    )


def by_number(batch: pa.RecordBatch) -> list[dict[int, Any]]:
    ids = [field_id(each) for each in batch.schema]
    return [dict(zip(ids, row.values(), strict=True)) for row in batch.to_pylist()]
