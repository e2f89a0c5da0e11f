"""Statements that apply staged changes to a table.

No index is there yet, so each of them joins the whole table and the staged changes by hash.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.catalog.columns import Column
from holdfast.postgresql.connection.sql import ident, qualified
from holdfast.postgresql.values.content_hash import hash_select, kept_value, row_hash
from holdfast.postgresql.values.stored_columns import Form, StoredColumn, layout

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.postgresql.catalog.table import Table

STAGE: Final = 'pg_temp."holdfast_changes"'
"""The temporary table that changes are staged in."""

EMPTIED: Final = "T"
INSERTED: Final = "I"
UPDATED: Final = "U"
DELETED: Final = "D"


class _Pair(NamedTuple):
    """A column of the table and the one that stages its values."""

    own: StoredColumn
    staged: StoredColumn


@dataclass(frozen=True)
class NetStatements:
    """Statements of one table.

    Staged columns have names that the table's have not, so that no name needs to say where it is from; and the types
    below domains, since a row that goes is NULL but for its key.
    """

    table: Table
    key: tuple[int, ...]
    encoding: str

    @cached_property
    def name(self) -> str:
        return qualified(self.table.table_schema, self.table.name)

    @cached_property
    def plain(self) -> tuple[Column, ...]:
        """Return the columns that changes have: all but generated ones."""
        return tuple(column for column in self.table.columns if not column.generated)

    @cached_property
    def has_generated(self) -> bool:
        return any(column.generated == "s" for column in self.table.columns)

    @cached_property
    def values(self) -> tuple[Column, ...]:
        """Return the staged columns of `plain`."""
        return tuple(replace(column, name=self._unused(f"c{column.number}")) for column in self.plain)

    @cached_property
    def op(self) -> Column:
        return _column(self._unused("op"), "text")

    @cached_property
    def more(self) -> Column:
        """Return the staged column of unchanged columns (`,3,5,`) or, without a key, of the row's copies."""
        return _column(self._unused("unchanged"), "text") if self.key else _column(self._unused("copies"), "int8")

    @cached_property
    def staged(self) -> tuple[Column, ...]:
        return (*self.values, self.op, self.more)

    @cached_property
    def pairs(self) -> tuple[_Pair, ...]:
        own, staged = layout(self.plain), layout(self.values)
        return tuple(_Pair(*pair) for pair in zip(own, staged, strict=True))

    def _unused(self, name: str) -> str:
        while any(column.name == name for column in self.table.columns):
            name += "_"
        return name

    def create(self) -> str:
        types = ", ".join(f"{ident(each.name)} {qualified(each.base_schema, each.base)}" for each in self.staged)
        return f"create temporary table {STAGE} ({types}) on commit drop"

    def analyze(self) -> str:
        numbers = (self.op.number, *self.key)
        names = ", ".join(ident(each.name) for each in self.staged if each.number in numbers)
        return f"analyze {STAGE} ({names})"

    def empty(self) -> str:
        return f"truncate only {self.name}"

    def _same_key(self) -> str:
        pairs = {pair.own.column.number: pair for pair in self.pairs}
        if not pairs.keys() >= {*self.key}:
            raise HoldfastError(f"{self.table.label}: a column that tells its rows apart is not in its changes")
        keys = [pairs[number] for number in self.key]
        return " and ".join(f"{_comparable(pair.own)} = {_comparable(pair.staged)}" for pair in keys)

    def _has_op(self, op: str) -> str:
        return f"{ident(self.op.name)} = '{op}'"

    def complete(self, unchanged: Collection[int]) -> str:
        """Return the SQL that takes unchanged values from the rows to update."""
        pairs = [pair for pair in self.pairs if pair.own.column.number in unchanged]
        kept = [self._kept_or_staged(pair) for pair in pairs]
        values = ", ".join(kept) or f"{ident(self.op.name)} = {ident(self.op.name)}"  # all that stay were dropped
        return (
            f"update {STAGE} set {values} from only {self.name} t where {self._has_op(UPDATED)} and {self._same_key()}"
        )

    def _kept_or_staged(self, pair: _Pair) -> str:
        staged, own = ident(pair.staged.column.name), ident(pair.own.column.name)
        is_kept = f"pg_catalog.strpos({ident(self.more.name)}, ',{pair.own.column.number},') > 0"
        return f"{staged} = case when {is_kept} then {own} else {staged} end"

    def delete(self) -> str:
        """Return the SQL that deletes every row of the base that changes touch.

        It returns how many rows go, the hashes of all columns and of ordinary ones, and how many were to be updated.
        """
        place = ident(self._unused("place"))
        if self.key:
            using, condition, updated = STAGE, self._same_key(), self._has_op(UPDATED)
        else:
            using, condition, updated = f"({self._surplus()}) g ({place})", f"t.ctid = g.{place}", "false"
        gone = f"delete from only {self.name} t using {using} where {condition} returning {self._hashes()}, {updated}"
        return (
            f"with gone (whole, plain, updated) as ({gone}) select count(*), coalesce(sum(whole), 0), "
            "coalesce(sum(plain), 0), count(*) filter (where updated) from gone"
        )

    def _hashes(self) -> str:
        """Return the SQL of a row's hashes, of all columns and of ordinary ones (0 if they are the same)."""
        plain = row_hash(self.plain, encoding=self.encoding) if self.has_generated else "0"
        return f"{row_hash(self.table.columns, encoding=self.encoding)}, {plain}"

    def _surplus(self) -> str:
        """Return the SQL of the rows that go, as many of each as are to: equal ones have equal text."""
        there = f"select ctid as place, {self._row('own')} as content from only {self.name}"
        gone = (
            f"select {self._row('staged')} as content, sum({ident(self.more.name)}) as copies from {STAGE} "
            f"where {self._has_op(DELETED)} group by 1"
        )
        numbered = (
            "select t.place, s.copies, row_number() over (partition by s.content order by t.place) as number "
            f"from ({there}) t join ({gone}) s on t.content = s.content"
        )
        return f"select place from ({numbered}) n where number <= copies"

    def _row(self, side: str) -> str:
        names = ", ".join(ident(getattr(pair, side).column.name) for pair in self.pairs)
        return f'(row({names})::pg_catalog.text collate "C")'

    def hash_updated(self) -> str:
        return hash_select(f"{STAGE} where {self._has_op(UPDATED)}", self.values, encoding=self.encoding)

    def insert(self) -> str:
        own, staged = (", ".join(ident(column.name) for column in columns) for columns in (self.plain, self.values))
        into = f"{self.name} ({own}) overriding system value" if own else self.name
        copies = "" if self.key else f" cross join lateral pg_catalog.generate_series(1, {ident(self.more.name)})"
        return f"insert into {into} select {staged} from {STAGE}{copies} where not {self._has_op(DELETED)}"

    def insert_and_hash(self) -> str:
        """Return the SQL that inserts complete rows, and returns hashes of all and of ordinary columns."""
        return (
            f"with came (whole, plain) as ({self.insert()} returning {self._hashes()}) "
            "select count(*), coalesce(sum(whole), 0), coalesce(sum(plain), 0) from came"
        )


def _column(name: str, base: str) -> Column:
    return Column(
        name=name, number=0, type=base, base=base, base_schema="pg_catalog", kind="b", is_array=False,
        output=f"pg_catalog.{base}out", precision=None, scale=None, not_null=False, generated="", identity="",
    )  # fmt: skip


def _comparable(each: StoredColumn) -> str:
    """Return the SQL of a key's value for joining rows.

    Text is compared byte by byte in any collation, and unknown types by their text: changes are kept apart by it, and
    their own operators may be anywhere or missing.
    """
    value = kept_value(each)
    return f'({value}) collate "C"' if each.form in (Form.TEXT, Form.OUTPUT) else value
