"""What happens to a database: transactions drawn at random, of changes of rows and of definitions."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

import psycopg
from hypothesis import strategies as st

from holdfast.sources.postgresql.sql import ident
from tests.support.followed import Followed
from tests.support.generator.values import Kind, built_in_kinds

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]

_LARGE = st.builds(lambda word, times: f"repeat(md5('{word}'), {times})", st.sampled_from("abc"), st.integers(80, 200))
_LABELS = ("sad", "happy", "calm")

OWN_KINDS = (
    Kind("large", _LARGE),
    Kind("mood", st.sampled_from(_LABELS).map(lambda label: f"'{label}'")),
    Kind("varchar(9)", st.text("ab ", max_size=9).map(lambda text: f"'{text}'")),
    Kind("numeric(8,2)", st.integers(-(10**8) + 1, 10**8 - 1).map(lambda cents: f"({cents}/100.0)::numeric(8,2)")),
    Kind("int", st.integers(-9, 9).map(str)),
)
"""Beside all others: what is kept out of its row, an enum, and what may be altered to another type."""

_WIDER = {"varchar(9)": "text", "numeric(8,2)": "numeric(14,2)"}
"""Types that need no rewriting."""

KEYS = {
    "key": "primary key (id)",
    "two": "primary key (word, id)",
    "index": "unique (id)",
    "full": "",
    "full and key": "primary key (id)",
    "none": "",
    "nothing": "primary key (id)",
    "parts": "primary key (part, id)",
}
"""What tells rows apart. Of `none` and `nothing`, changes cannot be followed."""


@dataclass
class Column:
    name: str
    kind: Kind

    def __deepcopy__(self, memo: object) -> Column:
        return Column(self.name, self.kind)


@dataclass
class Table:
    """A table as it should be.

    :param clean: it is followed, and nothing has happened to it that calls for another snapshot.
    :param altered: how often its columns were, since the last backup.
    :param refiled: it was given another file since then.
    """

    name: str
    how: str
    columns: list[Column]
    clean: bool
    altered: int = 0
    refiled: bool = False
    parts: list[str] = field(default_factory=list)

    def alter(self) -> None:
        self.altered += 1
        self._check()

    def refile(self) -> None:
        self.refiled = True
        self._check()

    def _check(self) -> None:
        # Forms in between may not be told apart; and who alters a table may give it another file, of which the log does
        # not tell.
        self.clean = self.clean and self.altered < 2 and not (self.altered and self.refiled)


@dataclass
class Model:
    """The tables of a database, by their names."""

    tables: dict[str, Table] = field(default_factory=dict)


Step = tuple[str, Callable[[Model], None]]
"""A statement, and what becomes of the model by it."""


def _nothing(model: Model) -> None:
    pass


class History:
    """Runs drawn transactions in a database that is followed."""

    def __init__(self, followed: Followed, draw: Draw) -> None:
        self.followed = followed
        self.model = Model()
        self.script: list[str] = []
        self._settled = False
        self._draw = draw
        self._numbers = itertools.count(1)

    def draw(self, values: st.SearchStrategy[T]) -> T:
        return cast(T, self._draw(values))

    def begin(self) -> None:
        """Make the first tables."""
        labels = ", ".join(f"'{label}'" for label in _LABELS)
        self.followed.run("create domain large as text", f"create type mood as enum ({labels})")
        hows = self.draw(st.lists(st.sampled_from(tuple(KEYS)), min_size=2, max_size=4))
        for how in hows:
            self._transaction(partial(self._create, how), commit=True)
            self._transaction(self._rows, commit=True)

    def transaction(self) -> None:
        """Run a transaction: of a few changes, now and then of definitions."""
        what = self.draw(st.integers(0, 9))
        steps = self._definition if what >= 7 else self._rows
        if what >= 7:
            self._settled = False
        if what == 9 and self.model.tables:
            table = self._table()
            self._alone(f"vacuum full {ident(table.name)}")
            table.refile()
        elif what == 6 and self.draw(st.booleans()):
            self._alone(self._message())
        else:
            self._transaction(steps, commit=self.draw(st.integers(0, 9)) > 0)

    def exact(self) -> set[int]:
        """Return the oids of the tables that must come back exactly, at each moment."""
        names = [name for table in self.model.tables.values() if table.clean for name in (table.name, *table.parts)]
        query = "select to_regclass(quote_ident(name))::oid::int8 from unnest(%s::text[]) name"
        return {oid for (oid,) in self.followed.session.execute(query, (names,))}

    def cut(self) -> None:
        """Note that a backup was taken."""
        for table in self.model.tables.values():
            table.altered, table.refiled = 0, False
        self._settled = True

    def _alone(self, statement: str) -> None:
        self.script.append(statement)
        self.followed.session.execute(statement.encode())
        self.followed.note()

    def _message(self) -> str:
        """Return what writes a message into the log: by itself, whatever becomes of its transaction, or as a part."""
        transactional, size = self.draw(st.booleans()), self.draw(st.sampled_from((1, 300, 9000)))
        return f"select pg_logical_emit_message({str(transactional).lower()}, 'app', repeat('x', {size}))"

    def _before_the_end(self, begun: int) -> None:
        """Write a message, or take a backup, in a transaction that has not ended.

        Where tables need a snapshot, or are locked, a backup would wait for the transaction.

        :param begun: number of its first line.
        """
        what = self.draw(st.integers(0, 7))
        if what < 3:
            self.script.append(self._message())
            self.followed.session.execute(self.script[-1].encode())
        is_locked = any(line.startswith("truncate") for line in self.script[begun:])
        if what < 2 and self._settled and not is_locked:
            self.script.append("-- a backup of changes")
            self.followed.back_up()
            self.cut()

    def _transaction(self, steps: Callable[[], Iterator[Step]], *, commit: bool) -> None:
        session = self.followed.session
        before = Model(copy.deepcopy(self.model.tables))
        begun = len(self.script)
        self.script.append("begin")
        session.execute("begin")
        for _ in range(self.draw(st.integers(1, 3))):
            session.execute("savepoint step")
            saved = copy.deepcopy(self.model.tables)
            try:
                for statement, then in steps():
                    self.script.append(statement)
                    session.execute(statement.encode())
                    then(self.model)
                session.execute("release step")
            except psycopg.Error as error:
                self.script.append(f"rollback to step -- {error}")
                session.execute("rollback to step")
                self.model.tables = saved
        self._before_the_end(begun)
        self.script.append("commit" if commit else "rollback")
        session.execute(self.script[-1].encode())
        if not commit:
            self.model = before
        self.followed.note()

    def _table(self) -> Table:
        return self.draw(st.sampled_from(list(self.model.tables.values())))

    def _column(self) -> Column:
        kind = self.draw(st.one_of(st.sampled_from(OWN_KINDS), built_in_kinds))
        return Column(f"c{next(self._numbers)}", kind)

    def _create(self, how: str) -> Iterator[Step]:
        name = f"t{next(self._numbers)}"
        columns = [self._column() for _ in range(self.draw(st.integers(1, 3)))]
        table = Table(name, how, columns, clean=how not in ("none", "nothing"))
        parted = " partition by list (part)" if how == "parts" else ""
        defined = "".join(f", {each.name} {each.kind.name}" for each in columns)
        generated = ", twice int generated always as (id * 2) stored" if how in ("key", "parts") else ""
        key = f", {KEYS[how]}" if KEYS[how] else ""
        yield (
            f"create table {name} (part int not null default 1, id int not null, word text not null default 'w'"
            f"{defined}{generated}{key}){parted}",
            lambda model: model.tables.update({name: table}),
        )
        for column in columns:
            if column.kind.name == "large":
                yield f"alter table {name} alter {column.name} set storage external", _nothing
        if how == "index":
            yield f"alter table {name} replica identity using index {name}_id_key", _nothing
        if how in ("full", "full and key"):
            yield f"alter table {name} replica identity full", _nothing
        if how == "nothing":
            yield f"alter table {name} replica identity nothing", _nothing
        if how == "parts":
            for number in (1, 2):
                part = f"{name}_{number}"
                table.parts.append(part)
                yield f"create table {part} partition of {name} for values in ({number})", _nothing

    def _rows(self) -> Iterator[Step]:
        """Yield statements that change rows of a table."""
        if not self.model.tables:
            return
        table = self._table()
        what = self.draw(st.sampled_from((*"iiiiuuuummmsddct",)))
        name, low = ident(table.name), self.draw(st.integers(0, 30))
        some = f"id between {low} and {low + self.draw(st.integers(0, 9))}"
        if what == "i":
            yield self._insert(table, low), _nothing
        elif what == "u" and table.columns:
            column = self.draw(st.sampled_from(table.columns))
            yield f"update {name} set {column.name} = {self.draw(column.kind.or_null())} where {some}", _nothing
        elif what == "m":
            by = self.draw(st.sampled_from((-7, -1, 1, 40)))
            yield f"update {name} set id = id + {by} where {some}", _nothing
            if table.how in ("two", "parts"):
                changed = "word = word || 'x'" if table.how == "two" else "part = 3 - part"
                yield f"update {name} set {changed} where {some}", _nothing
        elif what == "s":
            for old, new in ((low, -1), (low + 1, low), (-1, low + 1)):
                yield f"update {name} set id = {new} where id = {old}", _nothing
        elif what == "d":
            yield f"delete from {name} where {some}", _nothing
        elif what == "c":
            listed = ", ".join(("part", "word", *(each.name for each in table.columns)))
            yield f"insert into {name} (id, {listed}) select id + 50, {listed} from {name} where {some}", _nothing
        else:
            emptied = self.draw(st.sampled_from((table.name, *table.parts)))
            yield f"truncate {ident(emptied)}", lambda model: model.tables[table.name].refile()

    def _insert(self, table: Table, low: int) -> str:
        listed = ", ".join(("part", "id", *(each.name for each in table.columns)))
        rows = []
        for number in range(self.draw(st.integers(1, 4))):
            values = [self.draw(each.kind.or_null()) for each in table.columns]
            rows.append(f"({', '.join((str(self.draw(st.integers(1, 2))), str(low + number), *values))})")
        return f"insert into {ident(table.name)} ({listed}) values {', '.join(rows)} on conflict do nothing"

    def _definition(self) -> Iterator[Step]:
        """Yield statements that change a definition, and rows by it."""
        if not self.model.tables:
            yield from self._new()
            return
        kinds = (
            self._add, self._add, self._drop, self._rename, self._widen, self._retype, self._rename_table,
            self._identity, self._labels, self._empty_and_retype, self._part, self._make_part,
            lambda table: self._new(), self._drop_table, self._condition,
        )  # fmt: skip
        yield from self.draw(st.sampled_from(kinds))(self._table())
        yield from self._rows()

    def _altered(self, table: Table, change: Callable[[Table], None], *, clean: bool = True) -> Callable[[Model], None]:
        def then(model: Model) -> None:
            mine = model.tables[table.name]
            change(mine)
            mine.alter()
            mine.clean = mine.clean and clean

        return then

    def _add(self, table: Table) -> Iterator[Step]:
        column = self._column()
        values = st.one_of(
            st.just(""), st.just(" default null"), column.kind.values.map(lambda each: f" default {each}")
        )
        default = self.draw(values)
        volatile = column.kind.name == "int" and self.draw(st.booleans())
        # Whatever is not a constant may need rewriting.
        clean = not default or default == " default null"
        if volatile:
            default, clean = " default (random() * 9)::int", False
        yield (
            f"alter table {table.name} add {column.name} {column.kind.name}{default}",
            self._altered(table, lambda mine: mine.columns.append(column), clean=clean),
        )

    def _drop(self, table: Table) -> Iterator[Step]:
        if table.columns:
            index = self.draw(st.integers(0, len(table.columns) - 1))
            yield (
                f"alter table {table.name} drop {table.columns[index].name}",
                self._altered(table, lambda mine: mine.columns.__delitem__(index)),
            )

    def _condition(self, table: Table) -> Iterator[Step]:
        """Forbid what rows were before they were mended, and allow it again now and then."""
        if not table.columns:
            return
        column, name = self.draw(st.sampled_from(table.columns)), ident(table.name)
        altered = self._altered(table, lambda mine: None)
        yield f"update {name} set {column.name} = {self.draw(column.kind.values)} where {column.name} is null", _nothing
        yield f"alter table {name} alter {column.name} set not null", altered
        low = self.draw(st.integers(0, 30))
        yield f"update {name} set id = id + 100 where id < {low}", _nothing
        check = f"k{next(self._numbers)}"
        yield f"alter table {name} add constraint {check} check (id >= {low})", altered
        if self.draw(st.booleans()):
            yield f"alter table {name} alter {column.name} drop not null, drop constraint {check}", altered

    def _rename(self, table: Table) -> Iterator[Step]:
        if table.columns:
            index, name = self.draw(st.integers(0, len(table.columns) - 1)), f"r{next(self._numbers)}"
            kind = table.columns[index].kind
            yield (
                f"alter table {table.name} rename {table.columns[index].name} to {name}",
                self._altered(table, lambda mine: mine.columns.__setitem__(index, Column(name, kind))),
            )

    def _set_type(self, table: Table, wider: dict[str, str], how: str = "", *, clean: bool) -> Iterator[Step]:
        index = next((place for place, each in enumerate(table.columns) if each.kind.name in wider), None)
        if index is None:
            return
        name, kind = table.columns[index].name, table.columns[index].kind
        new = Column(name, Kind(wider[kind.name], kind.values))
        yield (
            f"alter table {table.name} alter {name} type {new.kind.name} {how.format(name)}",
            self._altered(table, lambda mine: mine.columns.__setitem__(index, new), clean=clean),
        )

    def _widen(self, table: Table) -> Iterator[Step]:
        yield from self._set_type(table, _WIDER, clean=True)

    def _retype(self, table: Table) -> Iterator[Step]:
        yield from self._set_type(table, {"int": "int8"}, clean=False)

    def _empty_and_retype(self, table: Table) -> Iterator[Step]:
        """Both give the table another file; only one is told by the log."""
        yield f"truncate {table.name}", lambda model: model.tables[table.name].refile()
        yield self._insert(table, 1), _nothing
        yield from self._set_type(table, {"int": "int"}, "using {} + 1", clean=False)

    def _rename_table(self, table: Table) -> Iterator[Step]:
        name = f"n{next(self._numbers)}"

        def then(model: Model) -> None:
            mine = model.tables.pop(table.name)
            mine.name = name
            model.tables[name] = mine

        yield f"alter table {table.name} rename to {name}", then

    def _identity(self, table: Table) -> Iterator[Step]:
        if table.how in ("key", "two", "full", "full and key"):
            how = self.draw(st.sampled_from(("full", "default")))
            yield (
                f"alter table {table.name} replica identity {how}",
                self._altered(table, lambda mine: None, clean=False),
            )
        elif table.how == "index":
            name = f"u{next(self._numbers)}"
            yield f"create unique index {name} on {table.name} (id, word)", _nothing
            yield (
                f"alter table {table.name} replica identity using index {name}",
                self._altered(table, lambda mine: None, clean=False),
            )

    def _labels(self, table: Table) -> Iterator[Step]:
        if self.draw(st.booleans()):
            yield f"alter type mood add value 'mood {next(self._numbers)}'", _nothing
            return

        def then(model: Model) -> None:
            for mine in model.tables.values():
                mine.clean = mine.clean and all(each.kind.name != "mood" for each in mine.columns)

        new = f"mood {next(self._numbers)}"
        yield f"alter type mood rename value 'calm' to '{new}'", then
        yield "alter type mood add value 'calm'", _nothing

    def _part(self, table: Table) -> Iterator[Step]:
        if table.parts:
            part = self.draw(st.sampled_from(table.parts))
            number = part.removesuffix("_").rsplit("_", 1)[1]
            yield (
                f"alter table {table.name} detach partition {part}",
                self._altered(table, lambda mine: None, clean=False),
            )
            yield f"delete from {part} where id < 5", _nothing
            yield f"insert into {part} (part, id) values ({number}, 77)", _nothing
            if self.draw(st.booleans()):
                yield f"alter table {table.name} attach partition {part} for values in ({number})", _nothing

    def _make_part(self, table: Table) -> Iterator[Step]:
        """Make a partition in one of the ways there are, and use it."""
        if table.how != "parts":
            return
        number = next(self._numbers)
        part = f"{table.name}_{number}"
        attached = f"for values in ({number})"
        if self.draw(st.booleans()):
            yield f"create table {part} partition of {table.name} {attached}", _nothing
        else:
            yield f"create table {part} (like {table.name} including all)", _nothing
            yield f"insert into {part} (part, id) values ({number}, 1)", _nothing
            yield f"alter table {table.name} attach partition {part} {attached}", _nothing
        yield f"insert into {table.name} (part, id) select {number}, id from generate_series(2, 5) id", _nothing
        what = self.draw(st.sampled_from(("", "", "truncate", "update", "drop")))
        if what == "truncate":
            yield f"truncate {part}", _nothing
        elif what == "update":
            yield f"update {table.name} set id = id + 1 where part = {number} and id > 3", _nothing
        elif what == "drop":
            yield f"drop table {part}", _nothing

    def _new(self) -> Iterator[Step]:
        """Make a table, of which nothing is known before its first snapshot."""
        for statement, then in self._create(self.draw(st.sampled_from(tuple(KEYS)))):

            def unclean(model: Model, then: Callable[[Model], None] = then) -> None:
                then(model)
                model.tables[max(model.tables, key=lambda name: int(name[1:]))].clean = False

            yield statement, unclean

    def _drop_table(self, table: Table) -> Iterator[Step]:

        def then(model: Model) -> None:
            del model.tables[table.name]

        yield f"drop table {table.name}", then
