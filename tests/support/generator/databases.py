"""Whole databases as SQL scripts: types of one's own, and tables of every shape with rows of every type."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from holdfast.postgresql.connection.sql import ident, literal
from tests.support.generator.values import (
    Kind,
    array_of,
    binary_kinds,
    built_in_kinds,
    cast,
    names,
    numbered,
    range_values,
)


@dataclass
class _Script:
    """The statements so far, and what later ones may refer to."""

    schema: str
    statements: list[str] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)
    keyed: list[str] = field(default_factory=list)
    number: int = 0

    def add(self, statement: str) -> None:
        self.statements.append(f"{statement};")

    def named(self, word: str) -> str:
        """Return a new name in the schema, quoted and qualified."""
        self.number += 1
        return f"{ident(self.schema)}.{ident(numbered(word, self.number))}"


@dataclass(frozen=True)
class _Column:
    """A column as it is defined, and what may be inserted.

    :param values: expressions; None: the server makes the values.
    """

    name: str
    kind: Kind
    definition: str
    values: st.SearchStrategy[str] | None


@st.composite
def databases(draw: st.DrawFn) -> str:
    """Draw the script of a database: a few types, and a handful of tables with rows."""
    script = _Script(numbered(draw(names), 0))
    script.add(f"create schema {ident(script.schema)}")
    for make in draw(st.lists(st.sampled_from((_enum, _domain, _composite, _range)), min_size=1, max_size=4)):
        make(draw, script)
    tables = (_plain, _plain, _plain, _binary, _changed, _partitioned, _inherited, _without_columns, _bulk)
    for table in draw(st.lists(st.sampled_from(tables), min_size=4, max_size=6)):
        table(draw, script)
    return "\n".join(script.statements)


def _kind(draw: st.DrawFn, script: _Script, *, arrays: bool = True) -> Kind:
    """Draw a type: built-in, or one of the script's; or arrays of it."""
    own = script.kinds
    kind: Kind = draw(st.one_of(st.sampled_from(own), built_in_kinds) if own else built_in_kinds)
    if arrays and not kind.is_array and draw(st.integers(0, 3)) == 0:
        return array_of(kind)
    return kind


def _enum(draw: st.DrawFn, script: _Script) -> None:
    name = script.named(draw(names))
    labels = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    script.add(f"create type {name} as enum ({', '.join(map(literal, labels))})")
    script.kinds.append(Kind(name, st.sampled_from(labels).map(lambda label: cast(label, name)), built_in=False))


def _domain(draw: st.DrawFn, script: _Script) -> None:
    name = script.named(draw(names))
    kind = _kind(draw, script)
    more = draw(st.sampled_from(("", " not null", " check (value is null or true)")))
    script.add(f"create domain {name} as {kind.name}{more}")
    nullable = kind.nullable and more != " not null"
    values = kind.values.map(lambda value: f"({value})::{name}")
    script.kinds.append(Kind(name, values, nullable=nullable, is_array=kind.is_array, built_in=False))


def _composite(draw: st.DrawFn, script: _Script) -> None:
    name = script.named(draw(names))
    fields = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    kinds = [_kind(draw, script) for _ in fields]
    inside = ", ".join(f"{ident(each)} {kind.name}" for each, kind in zip(fields, kinds, strict=True))
    script.add(f"create type {name} as ({inside})")
    values = st.tuples(*(kind.or_null() for kind in kinds)).map(lambda each: f"row({', '.join(each)})::{name}")
    script.kinds.append(Kind(name, values, built_in=False))


def _range(draw: st.DrawFn, script: _Script) -> None:
    name = script.named(draw(names))
    kind = draw(built_in_kinds.filter(lambda each: each.name in ("float8", "numeric", "text", "uuid", "int2")))
    script.add(f"create type {name} as range (subtype = {kind.name})")
    script.kinds.append(Kind(name, range_values(name, kind.name, kind.values, discrete=False), built_in=False))


def _column(draw: st.DrawFn, name: str, kind: Kind) -> _Column:
    """Draw a column that takes values: with or without NOT NULL, default and another way to store it."""
    not_null = draw(st.booleans())
    values = kind.values if not_null else kind.or_null()
    definition = f"{ident(name)} {kind.name}{' not null' if not_null else ''}"
    if draw(st.integers(0, 3)) == 0:
        definition += f" default {draw(kind.values)}"
        values = st.one_of(values, st.just("default"))
    return _Column(name, kind, definition, values)


def _generated(draw: st.DrawFn, name: str, of: _Column) -> _Column:
    """Draw a column that is generated from another one."""
    as_is = f"{ident(name)} {of.kind.name} generated always as ({ident(of.name)}) stored"
    isnt = f"{ident(name)} bool generated always as ({ident(of.name)} is null)"
    virtual = (f"{isnt} virtual",) if of.kind.built_in else ()  # PostgreSQL 18 knows no others
    return _Column(name, of.kind, draw(st.sampled_from((as_is, f"{isnt} stored", *virtual))), None)


def _identity(draw: st.DrawFn, name: str) -> _Column:
    """Draw an identity column, whose values are the sequence's or given."""
    kind = draw(st.sampled_from(("int2", "int4", "int8")))
    how = draw(st.sampled_from(("always", "by default")))
    values = draw(st.sampled_from((st.just("default"), st.integers(-100, 100).map(str))))
    return _Column(name, Kind(kind, values), f"{ident(name)} {kind} generated {how} as identity", values)


def _columns(draw: st.DrawFn, script: _Script) -> list[_Column]:
    """Draw the columns of a table: a few that take values, and some that are generated or an identity."""
    words = draw(st.lists(names, min_size=4, max_size=9, unique=True))
    columns: list[_Column] = []
    for word in words:
        what = draw(st.integers(0, 9))
        sources = [each for each in columns if each.values is not None and each.kind.nullable]
        if what == 0 and sources:
            columns.append(_generated(draw, word, draw(st.sampled_from(sources))))
        elif what == 1 and not any("as identity" in each.definition for each in columns):
            columns.append(_identity(draw, word))
        else:
            columns.append(_column(draw, word, _kind(draw, script)))
    return columns


def _define(script: _Script, table: str, columns: list[_Column], more: str = "", *, kind: str = "table") -> None:
    script.add(f"create {kind} {table} ({', '.join(each.definition for each in columns)}){more}")


def _insert(draw: st.DrawFn, script: _Script, table: str, columns: list[_Column], *, most: int = 7) -> None:
    """Draw rows: none, one, or a few."""
    into = [each for each in columns if each.values is not None]
    count = draw(st.integers(0, most))
    if not into:
        for _ in range(count):
            script.add(f"insert into {table} default values")
    elif count:
        rows = [f"({', '.join(draw(each.values) for each in into if each.values is not None)})" for _ in range(count)]
        listed = ", ".join(ident(each.name) for each in into)
        script.add(f"insert into {table} ({listed}) overriding system value values {', '.join(rows)}")


def _keyed(draw: st.DrawFn, script: _Script, table: str, columns: list[_Column]) -> None:
    """Give a table that is full a key, so that another one can refer to it; or let it refer to one."""
    if draw(st.booleans()):
        script.add(f"alter table {table} add column id__key int generated by default as identity primary key")
        script.keyed.append(table)
    elif script.keyed:
        other = draw(st.sampled_from(script.keyed))
        script.add(f"alter table {table} add column id__of int references {other}")
        script.add(f"update {table} set id__of = (select min(id__key) from {other})")


def _plain(draw: st.DrawFn, script: _Script) -> None:
    table = script.named(draw(names))
    columns = _columns(draw, script)
    kind = draw(st.sampled_from(("table", "table", "unlogged table")))
    _define(script, table, columns, kind=kind)
    _insert(draw, script, table, columns)
    if kind == "table":
        _keyed(draw, script, table, columns)


def _binary(draw: st.DrawFn, script: _Script) -> None:
    """A table that is loaded by the binary form of COPY."""
    table = script.named(draw(names))
    words = draw(st.lists(names, min_size=6, max_size=12, unique=True))
    columns = [_column(draw, word, draw(binary_kinds)) for word in words]
    _define(script, table, columns)
    _insert(draw, script, table, columns, most=10)


def _changed(draw: st.DrawFn, script: _Script) -> None:
    """A table with rows from before its columns were dropped, added and given other defaults."""
    table = script.named(draw(names))
    columns = _columns(draw, script)
    _define(script, table, columns)
    _insert(draw, script, table, columns)
    taken = {each.name for each in columns}
    free = [each for each in columns if not any(f"({ident(each.name)}" in other.definition for other in columns)]
    if free:
        gone = draw(st.sampled_from(free))
        script.add(f"alter table {table} drop column {ident(gone.name)}")
        columns.remove(gone)
    for word in draw(st.lists(names.filter(lambda name: name not in taken), max_size=2, unique=True)):
        kind = _kind(draw, script)
        script.add(f"alter table {table} add column {ident(word)} {kind.name} default {draw(kind.values)}")
        columns.append(_Column(word, kind, "", kind.or_null()))
    _insert(draw, script, table, columns)


def _partitioned(draw: st.DrawFn, script: _Script) -> None:
    """A table in partitions, one of which was attached: its columns stand in another order, behind a dropped one."""
    parent = script.named(draw(names))
    key = _Column("part__", Kind("int4", st.integers(0, 9).map(str)), "part__ int4", st.integers(0, 9).map(str))
    words = draw(st.lists(names, max_size=3, unique=True))
    columns = [key, *(_column(draw, word, _kind(draw, script)) for word in words)]
    how, bounds = draw(st.sampled_from(tuple(_PARTITIONS.items())))
    _define(script, parent, columns, f" partition by {how} (part__)", kind="table")
    attached, *created = bounds
    partition = script.named(draw(names))
    dropped = _Column("dropped__", Kind("text", st.just("")), "dropped__ text", None)
    _define(script, partition, [dropped, *reversed(columns)])
    script.add(f"alter table {partition} drop column dropped__")
    script.add(f"alter table {parent} attach partition {partition} {attached}")
    for bound in created:
        script.add(f"create table {script.named(draw(names))} partition of {parent} {bound}")
    _insert(draw, script, parent, columns, most=8)


_PARTITIONS = {
    "list": ("for values in (1, 3)", "for values in (2)", "default"),
    "range": ("for values from (minvalue) to (4)", "default"),
    "hash": tuple(f"for values with (modulus 3, remainder {rest})" for rest in range(3)),
}


def _inherited(draw: st.DrawFn, script: _Script) -> None:
    """A table whose child has columns and rows of its own."""
    parent, child = script.named(draw(names)), script.named(draw(names))
    columns = [each for each in _columns(draw, script) if "as identity" not in each.definition]
    taken = {each.name for each in columns}
    words = draw(st.lists(names.filter(lambda name: name not in taken), max_size=2, unique=True))
    more = [_column(draw, word, _kind(draw, script)) for word in words]
    _define(script, parent, columns)
    _define(script, child, more, f" inherits ({parent})")
    _insert(draw, script, parent, columns)
    _insert(draw, script, child, [*columns, *more])


def _without_columns(draw: st.DrawFn, script: _Script) -> None:
    table = script.named(draw(names))
    _define(script, table, [])
    _insert(draw, script, table, [])


def _bulk(draw: st.DrawFn, script: _Script) -> None:
    """A table of many pages, whose rows were partly updated and deleted."""
    table = script.named(draw(names))
    words = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    columns = [_column(draw, word, _kind(draw, script)) for word in words]
    _define(script, table, [_Column("row__", Kind("int4", st.just("")), "row__ int", None), *columns])
    _insert(draw, script, table, columns, most=3)
    count = draw(st.sampled_from((10, 300, 3000)))
    listed = ", ".join(f"t.{ident(each.name)}" for each in columns)
    script.add(f"insert into {table} select i, {listed} from {table} t, generate_series(1, {count}) i")
    script.add(f"delete from {table} where row__ % {draw(st.integers(2, 9))} = 0")
    script.add(f"update {table} set row__ = -row__ where row__ % 2 = 0")
