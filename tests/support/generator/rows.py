"""What happens to a table's rows."""

from __future__ import annotations

from hypothesis import strategies as st

from holdfast.postgresql.connection.sql import ident
from tests.support.generator.models import Chance, Model, Steps, Table

_WAYS = "iiiiuuuummmsddct"


def rows(chance: Chance, model: Model, table: Table) -> Steps:
    """Yield statements that change rows of a table."""
    low = chance.draw(st.integers(0, 30))
    way = chance.one(_WAYS)
    if way == "i":
        yield insert(chance, model, table, low)
    elif way == "s":
        yield from _exchange(table, low)
    elif way == "t":
        yield f"truncate {ident(chance.one((table.name, *table.parts)))}"
        table.refile(rows=False)
    else:
        some = f"id between {low} and {low + chance.draw(st.integers(0, 9))}"
        yield from {"u": _update, "m": _move, "d": _delete, "c": _copy}[way](chance, model, table, some)


def written(chance: Chance, model: Model, table: Table) -> Steps:
    """Yield such statements, most of which write all columns."""
    if chance.draw(st.booleans()):
        yield insert(chance, model, table, chance.draw(st.integers(31, 60)))
    else:
        yield from rows(chance, model, table)


def insert(chance: Chance, model: Model, table: Table, low: int) -> str:
    """Return what inserts a few rows.

    :param low: the first one's id.
    """
    listed = ", ".join(("part", "id", *(each.name for each in table.columns)))
    rows = []
    for number in range(chance.draw(st.integers(1, 4))):
        values = [chance.draw(model.or_null(each.kind)) for each in table.columns]
        rows.append(f"({', '.join((str(chance.draw(st.integers(1, 2))), str(low + number), *values))})")
    return f"insert into {ident(table.name)} ({listed}) values {', '.join(rows)} on conflict do nothing"


def fill(chance: Chance, model: Model, table: Table) -> str:
    """Return what inserts so many rows that most changes find some."""
    listed = "".join(f", {each.name}" for each in table.columns)
    values = "".join(f", {chance.draw(model.or_null(each.kind))}" for each in table.columns)
    name = ident(table.name)
    return f"insert into {name} (part, id{listed}) select 1 + id % 2, id{values} from generate_series(0, 30, 3) id"


def _exchange(table: Table, low: int) -> Steps:
    """Give two rows each the other's id."""
    for old, new in ((low, -1), (low + 1, low), (-1, low + 1)):
        yield f"update {ident(table.name)} set id = {new} where id = {old}"


def _update(chance: Chance, model: Model, table: Table, some: str) -> Steps:
    if table.columns:
        column = chance.one(table.columns)
        yield f"update {ident(table.name)} set {column.name} = {chance.draw(model.or_null(column.kind))} where {some}"


def _move(chance: Chance, model: Model, table: Table, some: str) -> Steps:
    """Change what may be a key."""
    by = chance.one((-7, -1, 1, 40))
    yield f"update {ident(table.name)} set {chance.one(('id', 'id', 'other'))} = id + {by} where {some}"
    if table.how in ("two", "parts"):
        changed = "word = word || 'x'" if table.how == "two" else "part = 3 - part"
        yield f"update {ident(table.name)} set {changed} where {some}"


def _delete(chance: Chance, model: Model, table: Table, some: str) -> Steps:
    yield f"delete from {ident(table.name)} where {some}"


def _copy(chance: Chance, model: Model, table: Table, some: str) -> Steps:
    listed = ", ".join(("part", "word", *(each.name for each in table.columns)))
    name = ident(table.name)
    yield f"insert into {name} (id, {listed}) select id + 50, {listed} from {name} where {some}"
