"""What comes, goes and comes again: columns, keys, replica identities, labels, attributes, and what is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from holdfast.postgresql.connection.sql import ident, literal
from tests.support.generator.models import INT, MOOD, MOODS, PAIR, Chance, Column, Columns, Model, Steps, Table
from tests.support.generator.values import Kind

Theme = Callable[[Chance, Model, Table], Steps]
"""Yields what happens to a table, or to the types that it has values of."""


def columns(chance: Chance, model: Model, table: Table) -> Steps:
    """Let columns come, go, come again, or be called as others were."""
    what = chance.one(("add", "add", "again", "again", "go", "rename", "exchange", "numbers"))
    if what == "again":
        yield from _go(chance, table)
    if what in ("add", "again"):
        yield from add(chance, model, table)
    elif what == "numbers":
        yield from _exchange(table, "id", "other")
        table.alter_it()
    else:
        yield from {"go": _go, "rename": _rename, "exchange": _exchange_two}[what](chance, table)


def add(chance: Chance, model: Model, table: Table) -> Steps:
    """Add a column, which older rows have a value in now and then."""
    column = _next(chance, table, (chance.kind(),))
    default, clean = _default(chance, model, column.kind)
    yield f"{table.alter} add {column.name} {column.kind.name}{default}"
    table.come(column)
    table.filled = table.filled or not clean
    table.alter_it(clean=clean)


def _default(chance: Chance, model: Model, kind: Kind) -> tuple[str, bool]:
    """Return a default, and whether it is certain that rows were not written anew for it."""
    if kind is INT and not chance.often():
        return " default (random() * 9)::int", False
    # PostgreSQL's own dump of a composite value does not restore once the type has another attribute.
    if kind is PAIR or chance.draw(st.booleans()):
        return chance.one(("", " default null")), True
    return f" default {chance.draw(model.values(kind))}", False


def _rename(chance: Chance, of: Columns) -> Steps:
    """Call a column something that none was called before, or what one was that is gone."""
    if of.columns:
        column = chance.one(of.columns)
        free = of.free()
        name = chance.newest(free).name if free and chance.often() else chance.name("c")
        yield f"{of.alter} rename {of.word} {column.name} to {name}"
        of.rename(column, name)


def _next(chance: Chance, of: Columns, kinds: Sequence[Kind]) -> Column:
    """Return a column that was there before, or another, which is like one that is there, or of another type."""
    free = of.free()
    if free and chance.often():
        return chance.newest(free)
    kind = chance.newest(of.columns).kind if of.columns and chance.often() else chance.one(kinds)
    name = chance.one(free).name if free and chance.often() else chance.name("c")
    return Column(name, kind)


def _go(chance: Chance, of: Columns) -> Steps:
    if of.columns:
        column = chance.newest(of.columns)
        yield f"{of.alter} drop {of.word} {column.name}"
        of.go(column)


def _exchange_two(chance: Chance, of: Columns) -> Steps:
    """Give two columns each the other's name."""
    if len(of.columns) > 1:
        one, other = chance.draw(st.permutations(of.columns))[:2]
        yield from _exchange(of, one.name, other.name)
        one.name, other.name = other.name, one.name


def _exchange(of: Columns, one: str, other: str) -> Steps:
    for old, new in ((one, "between"), (other, one), ("between", other)):
        yield f"{of.alter} rename {of.word} {old} to {new}"


_KEYS = ("id", "id", "word, id", "id, word", "other", "other, id")
_PARTED_KEYS = ("part, id", "part, id", "part, other")
"""Of tables in partitions."""


def keys(chance: Chance, model: Model, table: Table) -> Steps:
    """Let the primary key go or come, or both, also one of other columns."""
    if table.has_key:
        yield f"{table.alter} drop constraint {table.key_name}"
        table.has_key = False
        table.alter_it(clean=False)
        if chance.draw(st.booleans()):
            return
    key = chance.one(_PARTED_KEYS if table.parts else _KEYS)
    key = table.key if table.key and chance.often() else key
    yield f"{table.alter} add constraint {table.key_name} primary key ({key})"
    table.key, table.has_key = key, True
    table.alter_it(clean=False)


def identities(chance: Chance, model: Model, table: Table) -> Steps:
    """Let changes tell rows apart otherwise, and by what they did before."""
    of = ident(chance.one(table.parts or (table.name,)))
    how = chance.one(("full", "full", "default", "default", "nothing", "index", "index"))
    if how == "index":
        name = chance.one(table.indexes) if table.indexes and chance.often() else chance.name("u")
        if name not in table.indexes:
            yield f"create unique index {name} on {of} ({chance.one(('id', 'other', 'id, word'))})"
            table.indexes.append(name)
        how = f"using index {name}"
    yield f"alter table {of} replica identity {how}"
    table.alter_it(clean=False)


def labels(chance: Chance, model: Model, table: Table) -> Steps:
    """Let labels of the enum be added, renamed, or exchanged, which one of the table's columns has."""
    yield from _with_one_of(chance, table, (MOOD, MOODS))
    what = chance.one(("add", "add", "rename", "rename", "exchange"))
    if what == "add":
        yield from _add_label(chance, model)
    elif what == "rename":
        yield from _rename_label(chance, model)
    else:
        one, other = chance.one(((0, 1), (0, 1), (1, 2)))
        yield from _exchange_labels(model.labels[one], model.labels[other])
        model.spoil(MOOD, MOODS, PAIR)


def _with_one_of(chance: Chance, table: Table, kinds: Sequence[Kind]) -> Steps:
    """Add a column of one of some types, where there is none."""
    if not table.has(*kinds):
        column = Column(chance.name("c"), chance.one(kinds))
        yield f"{table.alter} add {column.name} {column.kind.name}"
        table.come(column)


def _next_label(chance: Chance, model: Model) -> str:
    free = [each for each in model.old_labels if each not in model.labels]
    return chance.one(free) if free and chance.often() else chance.name('so "so" ')


def _add_label(chance: Chance, model: Model) -> Steps:
    label = _next_label(chance, model)
    yield f"alter type mood add value {literal(label)}"
    model.labels.append(label)
    model.spoil(PAIR)


def _rename_label(chance: Chance, model: Model) -> Steps:
    """Rename a label: often the newest one."""
    place = chance.one((-1, -1, -1, 0))
    old, new = model.labels[place], _next_label(chance, model)
    yield f"alter type mood rename value {literal(old)} to {literal(new)}"
    model.labels[place] = new
    model.old_labels.append(old)
    model.spoil(MOOD, MOODS, PAIR)


def _exchange_labels(one: str, other: str) -> Steps:
    for old, new in ((one, "between"), (other, one), ("between", other)):
        yield f"alter type mood rename value {literal(old)} to {literal(new)}"


def attributes(chance: Chance, model: Model, table: Table) -> Steps:
    """Let attributes of the composite type come, go, come again, or be called as others were."""
    yield from _with_one_of(chance, table, (PAIR,))
    pair = model.pair
    what = chance.one(("add", "add", "go", "rename", "exchange"))
    if what == "add":
        column = _next(chance, pair, (INT, MOOD))
        yield f"{pair.alter} add {pair.word} {column.name} {column.kind.name}"
        pair.come(column)
    elif what != "go" or len(pair.columns) > 1:
        yield from {"go": _go, "rename": _rename, "exchange": _exchange_two}[what](chance, pair)
    model.spoil(MOOD, MOODS, PAIR)


_EXPRESSIONS = ("id * 2", "id * 3", "id + other", "-id")


def expressions(chance: Chance, model: Model, table: Table) -> Steps:
    """Let a column be computed otherwise, be an ordinary one, go, or be computed again."""
    expression = chance.one(_EXPRESSIONS)
    what = chance.one(("set", "set", "set", "drop", "ordinary"))
    if not table.computed:
        how = chance.one(("stored", "stored", "virtual"))
        yield f"{table.alter} add twice int generated always as ({expression}) {how}"
        table.computed = how
    elif what == "set":
        yield f"{table.alter} alter twice set expression as ({expression})"
    elif what == "drop":
        yield f"{table.alter} drop twice"
        table.computed = ""
    else:
        yield f"{table.alter} alter twice drop expression"
        table.computed = ""
        table.columns.append(Column("twice", INT))
    table.alter_it(clean=False)


THEMES: tuple[Theme, ...] = (columns, columns, keys, identities, labels, labels, attributes, expressions)
