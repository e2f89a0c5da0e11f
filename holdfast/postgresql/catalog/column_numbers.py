"""Column numbers (attnum), inferred where only the order of columns is known.

They follow from the catalog before and after.

What holds for every table is enough, and names are no evidence: a column may be given another's. Numbers only ever
grow, none is used twice, and columns stand in the order of theirs. So what was there before and is there now was there
all the time; and what was made since and is there now was there from then on, under everything made after it.

Source: PostgreSQL manual, 'pg_attribute' (attnum, attisdropped).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.postgresql.catalog.table import Table


class Stay(Enum):
    """Presence of a column between two positions."""

    ALWAYS = "all the time"
    ONWARD = "from some time on"
    PERHAPS = "for some time, or never"


class ColumnNumber(NamedTuple):
    """A number that a column may have had."""

    number: int
    stay: Stay


def slots(before: Table | None, after: Table) -> list[ColumnNumber]:
    """Return the numbers that ordinary columns may have had between two catalogs.

    They are in order.

    A column that is generated at the second one was so all the time: none can be made so later.

    :param before: None: the table was made in between.
    """
    old = {column.number: column for column in before.columns} if before else {}
    new = {column.number: column for column in after.columns}
    last = before.last_number if before else 0
    found = []
    for number in sorted({*old, *new, *range(last + 1, after.last_number + 1)}):
        was, now = old.get(number), new.get(number)
        if now is not None and now.generated:
            continue
        stay = Stay.PERHAPS
        if was is not None and not was.generated and now is not None:
            stay = Stay.ALWAYS
        elif now is not None and number > last:
            stay = Stay.ONWARD
        found.append(ColumnNumber(number, stay))
    return found


def candidates(columns: int, among: Sequence[ColumnNumber], may_be: Callable[[int, int], bool]) -> list[frozenset[int]]:
    """Return the possible numbers of each column of a table, in the columns' order.

    :param columns: how many there are.
    :param among: in order.
    :param may_be: whether a column, by its place, can be the one of a number.
    :returns: empty ones where there cannot have been such a table.
    """
    sure = 0  # so that wide tables, of which little changes, cost little
    while sure < min(columns, len(among)) and among[sure].stay is Stay.ALWAYS:
        sure += 1
    rest, left = among[sure:], columns - sure
    fits = [[may_be(place, slot.number) for place in range(sure, columns)] for slot in rest]
    ahead = _reached(rest, fits, left)
    behind = _leading_on(rest, fits, left)
    found = [frozenset({slot.number}) for slot in among[:sure]]
    for place in range(left):
        numbers = (
            slot.number
            for at, slot in enumerate(rest)
            if ahead[at][place] and fits[at][place] and behind[at + 1][place + 1]
        )
        found.append(frozenset(numbers))
    return found if behind[0][0] else [frozenset()] * columns


def _reached(among: Sequence[ColumnNumber], fits: Sequence[Sequence[bool]], columns: int) -> list[list[bool]]:
    """Return whether the first slots can hold the first columns, by both counts."""
    found = [[False] * (columns + 1) for _ in range(len(among) + 1)]
    found[0][0] = True
    for at, slot in enumerate(among):
        for placed in range(columns + 1):
            if found[at][placed]:
                if placed < columns and fits[at][placed]:
                    found[at + 1][placed + 1] = True
                if _is_passed(slot, columns - placed):
                    found[at + 1][placed] = True
    return found


def _leading_on(among: Sequence[ColumnNumber], fits: Sequence[Sequence[bool]], columns: int) -> list[list[bool]]:
    """Return whether the remaining slots can hold the remaining columns, by both counts."""
    found = [[False] * (columns + 1) for _ in range(len(among) + 1)]
    found[-1][columns] = True
    for at in reversed(range(len(among))):
        for placed in range(columns + 1):
            taken = placed < columns and fits[at][placed] and found[at + 1][placed + 1]
            found[at][placed] = taken or (found[at + 1][placed] and _is_passed(among[at], columns - placed))
    return found


def _is_passed(slot: ColumnNumber, left: int) -> bool:
    """Return whether a slot can stay empty.

    A column present from some time on cannot be missing while a column is left to place behind it.
    """
    return slot.stay is Stay.PERHAPS or (slot.stay is Stay.ONWARD and left == 0)
