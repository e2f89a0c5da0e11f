"""What happens to tables as a whole: they are made, altered, given other names and partitions, and dropped."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from holdfast.postgresql.connection.sql import ident
from tests.support.generator.comings import Theme, add, attributes, columns, expressions, identities, keys, labels
from tests.support.generator.models import KEYS, Chance, Column, Model, Steps, Table
from tests.support.generator.rows import insert
from tests.support.generator.values import Kind

_WIDER = {"varchar(9)": "text", "numeric(8,2)": "numeric(14,2)"}
"""Types that need no rewriting."""


def create(chance: Chance, model: Model, how: str) -> Steps:
    """Make a table, whose rows are told apart in some way."""
    columns = [Column(chance.name("c"), chance.kind()) for _ in range(chance.draw(st.integers(1, 3)))]
    table = Table(chance.name("t"), columns, how=how, key=KEYS[how], has_key=bool(KEYS[how]))
    table.computed = "stored" if how in ("key", "parts") else ""
    yield _defined(table)
    model.tables[table.name] = table
    for column in columns:
        if column.kind.name == "large":
            yield f"{table.alter} alter {column.name} set storage external"
    if how == "index":
        table.indexes.append(f"{table.name}_id_key")
        yield f"{table.alter} replica identity using index {table.name}_id_key"
    elif how in ("full", "full and key", "nothing"):
        yield f"{table.alter} replica identity {how.split()[0]}"
    elif how == "parts":
        for number in (1, 2):
            table.parts.append(f"{table.name}_{number}")
            yield f"create table {table.parts[-1]} partition of {table.name} for values in ({number})"


def _defined(table: Table) -> str:
    """Return what makes a table. Two columns of it can be the key, and exchange their names."""
    columns = "".join(f", {each.name} {each.kind.name}" for each in table.columns)
    twice = ", twice int generated always as (id * 2) stored" if table.computed else ""
    key = f", constraint {table.key_name} primary key ({table.key})" if table.has_key else ""
    unique = ", unique (id)" if table.how == "index" else ""
    return (
        f"create table {table.name} (part int not null default 1, id int not null default nextval('others'), "
        f"other int not null default nextval('others'), word text not null default 'w'{columns}{twice}{key}{unique})"
        f"{' partition by list (part)' if table.how == 'parts' else ''}"
    )


def new(chance: Chance, model: Model, table: Table | None = None) -> Steps:
    """Make a table, of which nothing is known before its first snapshot."""
    there = set(model.tables)
    yield from create(chance, model, chance.one(tuple(KEYS)))
    for name in model.tables.keys() - there:
        model.tables[name].clean = False


def _condition(chance: Chance, model: Model, table: Table) -> Steps:
    """Forbid what rows were before they were mended, and allow it again now and then."""
    if not table.columns:
        return
    column, name = chance.one(table.columns), ident(table.name)
    yield f"update {name} set {column.name} = {chance.draw(model.values(column.kind))} where {column.name} is null"
    yield f"alter table {name} alter {column.name} set not null"
    table.alter_it()
    low = chance.draw(st.integers(0, 30))
    yield f"update {name} set id = id + 100 where id < {low}"
    check = chance.name("k")
    yield f"alter table {name} add constraint {check} check (id >= {low})"
    if chance.draw(st.booleans()):
        yield f"alter table {name} alter {column.name} drop not null, drop constraint {check}"


def _set_type(table: Table, wider: Mapping[str, str], how: str = "", *, clean: bool) -> Steps:
    column = next((each for each in table.columns if each.kind.name in wider), None)
    if column is None:
        return
    kind = Kind(wider[column.kind.name], column.kind.values)
    yield f"{table.alter} alter {column.name} type {kind.name} {how.format(column.name)}"
    column.kind = kind
    table.alter_it(clean=clean)


def _widen(chance: Chance, model: Model, table: Table) -> Steps:
    yield from _set_type(table, _WIDER, clean=True)


def _retype(chance: Chance, model: Model, table: Table) -> Steps:
    yield from _set_type(table, {"int": "int8"}, clean=False)


def _empty_and_retype(chance: Chance, model: Model, table: Table) -> Steps:
    """Both give the table another file; only one is told by the log."""
    yield f"truncate {ident(table.name)}"
    table.refile(rows=False)
    yield insert(chance, model, table, 1)
    yield from _set_type(table, {"int": "int"}, "using {} + 1", clean=False)


def _rename_table(chance: Chance, model: Model, table: Table) -> Steps:
    name = chance.name("n")
    yield f"{table.alter} rename to {name}"
    model.tables[name] = model.tables.pop(table.name)
    table.name = name


def _part(chance: Chance, model: Model, table: Table) -> Steps:
    """Take a partition out of its table, and put it in again now and then."""
    if not table.parts:
        return
    part = chance.one(table.parts)
    number = part.rsplit("_", 1)[1]
    yield f"{table.alter} detach partition {part}"
    table.alter_it(clean=False)
    yield f"delete from {part} where id < 5"
    yield f"insert into {part} (part, id) values ({number}, 77)"
    if chance.draw(st.booleans()):
        yield f"{table.alter} attach partition {part} for values in ({number})"


def _make_part(chance: Chance, model: Model, table: Table) -> Steps:
    """Make a partition in one of the ways there are, and use it."""
    if table.how != "parts":
        return
    number = next(chance.numbers)
    part = f"{table.name}_{number}"
    yield from _attached(chance, table, part, number)
    yield f"insert into {table.name} (part, id) select {number}, id from generate_series(2, 5) id"
    what = chance.one(("", "", "truncate", "update", "drop"))
    if what == "truncate":
        yield f"truncate {part}"
    elif what == "update":
        yield f"update {table.name} set id = id + 1 where part = {number} and id > 3"
    elif what == "drop":
        yield f"drop table {part}"


def _attached(chance: Chance, table: Table, part: str, number: int) -> Steps:
    attached = f"for values in ({number})"
    if chance.draw(st.booleans()):
        yield f"create table {part} partition of {table.name} {attached}"
        return
    yield f"create table {part} (like {table.name} including all)"
    yield f"insert into {part} (part, id) values ({number}, 1)"
    yield f"{table.alter} attach partition {part} {attached}"


def _drop_table(chance: Chance, model: Model, table: Table) -> Steps:
    yield f"drop table {table.name}"
    del model.tables[table.name]


DEFINITIONS: tuple[Theme, ...] = (
    add, add, columns, columns, _widen, _retype, _rename_table, keys, identities, labels, attributes, expressions,
    _empty_and_retype, _part, _make_part, new, _drop_table, _condition,
)  # fmt: skip
"""Each is as likely as another."""
