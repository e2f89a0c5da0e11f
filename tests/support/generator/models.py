"""What a drawn database should be: its tables and types, and what was in them before."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from hypothesis import strategies as st

from holdfast.postgresql.connection.sql import ident, literal
from tests.support.generator.values import Kind, Values, built_in_kinds

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]

Steps = Iterator[str]
"""Statements. Each has succeeded once the next one is asked for: then the model is as it left the database."""

_LARGE = st.builds(lambda word, times: f"repeat(md5('{word}'), {times})", st.sampled_from("abc"), st.integers(80, 200))

MOOD, MOODS, PAIR = (Kind(name, st.nothing(), built_in=False) for name in ("mood", "mood[]", "pair"))
"""An enum, arrays of it, and a composite type. What values they take at a time, the model knows."""

INT = Kind("int", st.integers(-9, 9).map(str))
OWN_KINDS = (
    Kind("large", _LARGE),
    MOOD,
    MOODS,
    PAIR,
    Kind("varchar(9)", st.text("ab ", max_size=9).map(lambda text: f"'{text}'")),
    Kind("numeric(8,2)", st.integers(-(10**8) + 1, 10**8 - 1).map(lambda cents: f"({cents}/100.0)::numeric(8,2)")),
    INT,
)
"""Beside all others: what is kept out of its row, types of one's own, and what may be altered to another type."""

KEYS = {
    "key": "id",
    "two": "word, id",
    "index": "",
    "full": "",
    "full and key": "id",
    "none": "",
    "nothing": "id",
    "parts": "part, id",
}
"""The primary key by what tells rows apart. Of `none` and `nothing`, changes cannot be followed."""


@dataclass
class Column:
    name: str
    kind: Kind

    def __deepcopy__(self, memo: object) -> Column:
        return Column(self.name, self.kind)


@dataclass
class Columns:
    """The columns of a table, or the attributes of a type.

    :param gone: those that were there, by the names that they had.
    """

    name: str
    columns: list[Column]
    gone: list[Column] = field(default_factory=list, kw_only=True)

    @property
    def alter(self) -> str:
        """The beginning of a statement that alters them."""
        return f"alter table {ident(self.name)}"

    @property
    def word(self) -> str:
        """What one of them is called in a statement."""
        return "column"

    def free(self) -> list[Column]:
        """Return those that are gone, and whose names nothing has."""
        names = {each.name for each in self.columns}
        return [each for each in self.gone if each.name not in names]

    def come(self, column: Column) -> None:
        self.columns.append(column)

    def go(self, column: Column) -> None:
        self.columns.remove(column)
        self.gone.append(column)

    def rename(self, column: Column, name: str) -> None:
        self.gone.append(Column(column.name, column.kind))
        column.name = name


@dataclass
class Pair(Columns):
    """The composite type.

    :param is_table: its values are rows of a table.
    """

    is_table: bool

    @property
    def alter(self) -> str:
        return f"alter {'table' if self.is_table else 'type'} {self.name}"

    @property
    def word(self) -> str:
        return "column" if self.is_table else "attribute"


@dataclass
class Table(Columns):
    """A table as it should be.

    :param clean: nothing has happened to it since the last backup that calls for another snapshot.
    :param key_name: of its primary key, if it has one.
    :param key: the columns of that, now or before.
    :param has_key: it has one now.
    :param computed: how the column `twice` is generated, if it is.
    :param indexes: that may be its replica identity.
    :param came, went: how many columns did since the last backup.
    :param refiled: it was given another file since then.
    :param filled: a column has a value in older rows that stands in the catalog only.
    """

    how: str
    clean: bool = True
    key: str = ""
    has_key: bool = False
    computed: str = ""
    indexes: list[str] = field(default_factory=list)
    came: int = 0
    went: int = 0
    refiled: bool = False
    filled: bool = False
    parts: list[str] = field(default_factory=list)
    key_name: str = field(init=False)

    def __post_init__(self) -> None:
        self.key_name = f"{self.name}_key"

    def has(self, *kinds: Kind) -> bool:
        """Say whether a column is of one of some types."""
        return any(each.kind in kinds for each in self.columns)

    def come(self, column: Column) -> None:
        super().come(column)
        self.came += 1
        self.alter_it()

    def go(self, column: Column) -> None:
        super().go(column)
        self.went += 1
        self.alter_it()

    def rename(self, column: Column, name: str) -> None:
        super().rename(column, name)
        self.alter_it()

    def alter_it(self, *, clean: bool = True) -> None:
        """Note that its definition has changed.

        :param clean: its rows are what they were.
        """
        self.clean = self.clean and clean
        self._check()

    def refile(self, *, rows: bool) -> None:
        """Note that it has another file.

        :param rows: the same ones are in it, with what they had in the catalog only.
        """
        self.refiled = True
        if rows and self.filled:
            self.clean, self.filled = False, False
        self._check()

    def cut(self) -> None:
        """Note that a backup was taken."""
        self.came, self.went, self.refiled, self.clean = 0, 0, False, True

    def _check(self) -> None:
        # Which one went may not be told, where another did or came; nor what older rows have in one that came, where
        # that stood in the catalog, and the table was given another file.
        told = self.went == 0 or self.came + self.went == 1
        self.clean = self.clean and told and not (self.came and self.refiled)


@dataclass
class Model:
    """The tables of a database by their names, and its types.

    :param labels: of the enum; `old_labels` were its, too.
    :param spoiled: types whose values may be written otherwise than at the last backup.
    """

    pair: Pair
    tables: dict[str, Table] = field(default_factory=dict)
    labels: list[str] = field(default_factory=lambda: ["sad", "happy", "calm"])
    old_labels: list[str] = field(default_factory=list)
    spoiled: list[Kind] = field(default_factory=list)

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        tables = copy.deepcopy(self.tables, memo)
        return Model(copy.deepcopy(self.pair), tables, [*self.labels], [*self.old_labels], [*self.spoiled])

    def values(self, kind: Kind) -> Values:
        """Return expressions of a type."""
        if kind is MOOD:
            return st.sampled_from((*self.labels, self.labels[-1])).map(lambda label: f"{literal(label)}::mood")
        if kind is MOODS:
            return st.lists(self.or_null(MOOD), max_size=3).map(lambda each: f"array[{', '.join(each)}]::mood[]")
        if kind is PAIR:
            inside = st.tuples(*(self.or_null(each.kind) for each in self.pair.columns))
            return inside.map(lambda each: f"row({', '.join(each)})::pair")
        return kind.values

    def or_null(self, kind: Kind) -> Values:
        """Return expressions of a type, and NULL now and then."""
        return st.one_of(self.values(kind), st.just("null"))

    def spoil(self, *kinds: Kind) -> None:
        """Note that values of some types may not be written any more as they were."""
        self.spoiled += kinds

    def clean(self) -> list[str]:
        """Return the names of tables to which nothing has happened that calls for another snapshot."""
        clean = [each for each in self.tables.values() if each.clean and not each.has(*self.spoiled)]
        return [name for table in clean for name in (table.name, *table.parts)]

    def cut(self) -> None:
        """Note that a backup was taken."""
        self.spoiled = []
        for table in self.tables.values():
            table.cut()


@dataclass(frozen=True)
class Chance:
    """What is drawn, and numbers that make names new."""

    drawn: Draw
    numbers: Iterator[int]

    def draw(self, values: st.SearchStrategy[T]) -> T:
        return cast(T, self.drawn(values))

    def one(self, among: Sequence[T]) -> T:
        return self.draw(st.sampled_from(among))

    def newest(self, among: Sequence[T]) -> T:
        """Return the last one, more often than others."""
        return among[-1] if self.often() else self.one(among)

    def often(self) -> bool:
        return self.draw(st.integers(0, 3)) > 0

    def name(self, letter: str) -> str:
        """Return a name that nothing has had."""
        return f"{letter}{next(self.numbers)}"

    def kind(self) -> Kind:
        return self.draw(st.one_of(st.sampled_from(OWN_KINDS), built_in_kinds))
