"""Which number each column has: histories are drawn, and of each of their tables only the columns' types are told."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.postgresql.catalog.column_numbers import ColumnNumber, Stay, candidates, slots
from holdfast.postgresql.catalog.columns import Column
from holdfast.postgresql.catalog.table import Table

_ALWAYS, _ONWARD, _PERHAPS = Stay.ALWAYS, Stay.ONWARD, Stay.PERHAPS


@dataclass
class Drawn:
    """A table: types by number, and the highest number that it ever had."""

    columns: dict[int, str]
    last: int

    def table(self, *, is_recorded: bool = True, generated: tuple[int, ...] = ()) -> Table:
        form = f"{self.last}:123" if is_recorded else ""
        columns = tuple(_column(*each, generated="s" if each[0] in generated else "") for each in self.columns.items())
        return Table(
            oid=1, table_schema="s", name="t", kind="r", persistence="p", replica_identity="d", access_method="heap",
            parents=(), bound=None, owner="o", columns=columns, key=(), pages=0, size=0, estimated_rows=0, form=form,
        )  # fmt: skip

    def step(self, add: str | None, drop: int) -> Drawn:
        """Return the table after a column was added, or dropped: one of those that are there."""
        if add is not None:
            return Drawn({**self.columns, self.last + 1: add}, self.last + 1)
        gone = sorted(self.columns)[drop % len(self.columns)] if self.columns else 0
        return Drawn({number: kind for number, kind in self.columns.items() if number != gone}, self.last)


def _column(number: int, kind: str, generated: str = "") -> Column:
    return Column(
        name=f"c{number}", number=number, type=kind, base=kind, base_schema="pg_catalog", kind="b", is_array=False,
        output="", precision=None, scale=None, not_null=False, generated=generated, identity="",
    )  # fmt: skip


def read(seen: Drawn, before: Drawn | None, after: Drawn) -> list[frozenset[int]]:
    """Return what each column of a table may be, by its type and what is known."""
    types = list(seen.columns.values())
    known: dict[int, set[str]] = {}
    for table in (before, after):
        for number, kind in table.columns.items() if table else ():
            known.setdefault(number, set()).add(kind)
    told = slots(before.table() if before else None, after.table())
    return candidates(len(types), told, lambda place, number: types[place] in known.get(number, {types[place]}))


_STEPS = st.lists(st.tuples(st.sampled_from([None, "int", "text"]), st.integers(0, 9)), max_size=7)


@given(first=st.lists(st.sampled_from(["int", "text"]), max_size=4), older=_STEPS, steps=_STEPS, is_born=st.booleans())
def test_what_a_column_was_is_among_what_it_may_have_been(
    first: list[str], older: list[tuple[str | None, int]], steps: list[tuple[str | None, int]], is_born: bool
) -> None:
    table = Drawn(dict(enumerate(first, 1)), len(first))
    for add, drop in older:
        table = Drawn(dict(table.columns), table.last) if is_born else table.step(add, drop)
    history = [table]
    for add, drop in steps:
        history.append(history[-1].step(add, drop))
    for seen in history:
        found = read(seen, None if is_born else history[0], history[-1])
        assert all(number in each for number, each in zip(seen.columns, found, strict=True)), (history, seen, found)


@pytest.mark.parametrize(
    ("columns", "among", "found"),
    [
        (0, [], []),
        (2, [ColumnNumber(1, _ALWAYS), ColumnNumber(2, _ALWAYS)], [{1}, {2}]),
        (1, [ColumnNumber(1, _ALWAYS), ColumnNumber(2, _ONWARD), ColumnNumber(3, _ONWARD)], [{1}]),
        (
            2,
            [ColumnNumber(1, _ALWAYS), ColumnNumber(2, _ONWARD), ColumnNumber(3, _ONWARD)],
            [{1}, {2}],
        ),  # whatever it was called
        (
            2,
            [ColumnNumber(1, _ALWAYS), ColumnNumber(2, _PERHAPS), ColumnNumber(3, _ONWARD)],
            [{1}, {2, 3}],
        ),  # dropped, and made anew
        (3, [ColumnNumber(1, _ALWAYS), ColumnNumber(2, _PERHAPS), ColumnNumber(3, _ONWARD)], [{1}, {2}, {3}]),
        (2, [ColumnNumber(1, _PERHAPS), ColumnNumber(2, _ALWAYS), ColumnNumber(3, _PERHAPS)], [{1, 2}, {2, 3}]),
        (1, [ColumnNumber(1, _ALWAYS), ColumnNumber(2, _ALWAYS)], [set()]),  # there was no such table
        (2, [ColumnNumber(1, _ALWAYS)], [set(), set()]),
    ],
)
def test_columns_that_stay_leave_little_to_guess(
    columns: int, among: list[ColumnNumber], found: list[set[int]]
) -> None:
    assert candidates(columns, among, lambda place, number: True) == found


def test_types_tell_columns_apart() -> None:
    before, after = Drawn({1: "int", 2: "int"}, 2), Drawn({1: "int", 3: "text"}, 3)
    assert read(Drawn({1: "int", 2: "int"}, 2), before, after) == [{1}, {2}]
    assert read(Drawn({1: "int", 3: "text"}, 3), before, after) == [{1}, {3}]


def test_generated_columns_are_not_shown_and_numbers_that_no_record_tells_may_have_been_there() -> None:
    after = Drawn({1: "int", 2: "int", 3: "int"}, 5)
    assert slots(after.table(generated=(2,)), after.table(generated=(2,))) == [
        ColumnNumber(1, _ALWAYS),
        ColumnNumber(3, _ALWAYS),
    ]
    assert slots(after.table(generated=(2,)), after.table())[1] == ColumnNumber(
        2, _PERHAPS
    )  # it may have been shown since
    assert slots(after.table(is_recorded=False), after.table())[3:] == [
        ColumnNumber(4, _PERHAPS),
        ColumnNumber(5, _PERHAPS),
    ]
    onward = [ColumnNumber(number, _ONWARD) for number in (1, 2, 3)]
    assert slots(None, after.table()) == [*onward, ColumnNumber(4, _PERHAPS), ColumnNumber(5, _PERHAPS)]
