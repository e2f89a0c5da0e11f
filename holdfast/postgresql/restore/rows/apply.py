"""Net changes of a table, staged by COPY and applied to its loaded rows.

Every row that goes or comes is hashed, so that what the table must hold afterwards is known without trusting the
target: `Applied.after`. Stored generated columns are not in changes: the target computes them again. Where a table has
some, the server hashes the rows that came twice: without these columns, to compare them with the archive, and with
them, to join the hash of the base, which has them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.common.errors import DamagedError, HoldfastError, MissingRowsError
from holdfast.postgresql.catalog.columns import Column
from holdfast.postgresql.connection.sql import ident, qualified
from holdfast.postgresql.restore.rows.staging_tables import not_taken
from holdfast.postgresql.values.content_hash import ContentHash, digest, hash_select, kept_value, row_hash
from holdfast.postgresql.values.encode import copy_in
from holdfast.postgresql.values.schema_evolution import is_same_schema
from holdfast.postgresql.values.stored_columns import Form, StoredColumn, layout, schema_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.session import Connection

_STAGE: Final = 'pg_temp."holdfast_changes"'
"""The temporary table that changes are staged in."""

EMPTIED: Final = "T"
INSERTED: Final = "I"
UPDATED: Final = "U"
DELETED: Final = "D"

_OPS: Final = {True: {EMPTIED, INSERTED, UPDATED, DELETED}, False: {EMPTIED, INSERTED, DELETED}}


@dataclass(frozen=True)
class Applied:
    """Result of applying changes to a table: hashes of rows that went one by one, and of those that came.

    :param deleted: rows of the base, those before an update among them; not those that were emptied.
    :param plain: the same without stored generated columns; None where there are none, or a release did not note it.
    """

    emptied: bool
    deleted: ContentHash
    inserted: ContentHash
    plain: Applied | None = None

    @classmethod
    def nothing(cls) -> Applied:
        """Return the result for a table that is left as it was."""
        return cls(emptied=False, deleted=ContentHash(), inserted=ContentHash())

    def to_json(self) -> str:
        """Return the result as JSON for another process."""
        return json.dumps(self._described())

    def _described(self) -> dict[str, Any]:
        plain = {"plain": self.plain._described()} if self.plain else {}
        return {"emptied": self.emptied, "deleted": str(self.deleted), "inserted": str(self.inserted), **plain}

    @classmethod
    def from_json(cls, text: str) -> Applied:
        return cls._of(json.loads(text))

    @classmethod
    def _of(cls, found: dict[str, Any]) -> Applied:
        deleted, inserted = ContentHash.parse(found["deleted"]), ContentHash.parse(found["inserted"])
        plain = cls._of(found["plain"]) if "plain" in found else None
        return cls(emptied=found["emptied"], deleted=deleted, inserted=inserted, plain=plain)

    def after(self, base: ContentHash) -> ContentHash:
        """Return the content hash of the table, from that of its base."""
        return (ContentHash() if self.emptied else base - self.deleted) + self.inserted


def apply_net(session: Connection, table: Table, key: tuple[int, ...], batches: Iterable[pa.RecordBatch]) -> Applied:
    """Apply net changes in the caller's transaction, which gets settings of its own for this.

    The table is as COPY has left it: no index, key, trigger or rule is there yet.

    :param key: numbers of the columns that tell rows apart; empty where only whole rows do.
    :param batches: in the Parquet schema of the columns that are not generated, followed by `__op` and, for tables with
        a key, `__unchanged`, or else `__count`. Ops: `T` all rows of the base go; `I` a complete row, whose key may be
        in the base; `U` a row of the base, whose columns in `__unchanged` stay; `D` a row that goes, of which only the
        key is there. Without a key: `D` and `I`, whole rows and how many of them.
    :raises MissingRowsError: a row that changes need is not in the base.
    :raises MisfitError: the table does not take the rows: they break a condition, or what it computes of them fails.
    """
    try:
        return _Net(session, table, key).apply(batches)
    except psycopg.Error as error:
        not_taken(session, f"{table.label} does not take its changes", error)


@dataclass
class _Staged:
    """Summary of the staged changes.

    :param unchanged: numbers of columns that stay in some row.
    :param updates: rows of which columns stay.
    :param deleted: rows that go, where the table has no key.
    """

    emptied: bool = False
    inserted: ContentHash = field(default_factory=ContentHash)
    unchanged: set[int] = field(default_factory=set)
    updates: int = 0
    deleted: int = 0


class _Net:
    def __init__(self, session: Connection, table: Table, key: tuple[int, ...]) -> None:
        self._session = session
        self._table = table
        encoding = session.info.parameter_status("server_encoding") or "UTF8"
        self._statements = _Statements(table, key, encoding)
        self._columns = self._statements.plain
        self._staged = _Staged()

    def apply(self, batches: Iterable[pa.RecordBatch]) -> Applied:
        statements, staged = self._statements, self._staged
        # Without statistics the planner may take a large table for a small one, and join two by a nested loop.
        self._do("set local enable_nestloop = off")
        self._do("set local synchronous_commit = off")
        self._do(statements.create())
        with self._session.cursor() as cursor:
            copy_in(cursor, _STAGE, statements.staged, map(self._stage, batches))
        self._do(statements.analyze())
        if staged.emptied:
            self._do(statements.empty())
        self._complete()
        deleted, plain_deleted = self._delete()
        inserted, plain_inserted = self._insert()
        plain = Applied(emptied=staged.emptied, deleted=plain_deleted, inserted=plain_inserted)
        return Applied(
            emptied=staged.emptied,
            deleted=deleted,
            inserted=inserted,
            plain=plain if statements.has_generated else None,
        )

    def _stage(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of changes in the staged schema, and record its contents."""
        width = len(schema_of(self._columns))
        if not is_same_schema(pa.schema(list(batch.schema)[:width]), self._columns):
            raise HoldfastError(f"the changes of {self._table.label} do not have the columns of the table")
        named = {name.rstrip("_"): place for place, name in enumerate(batch.schema.names) if place >= width}
        op = named["__op"]
        self._check_ops(batch.column(op))
        if EMPTIED in pc.unique(batch.column(op)).to_pylist():
            self._staged.emptied = True
            batch = batch.filter(pc.not_equal(batch.column(op), EMPTIED))
        more = self._note_updates if self._statements.key else self._note_copies
        extra = more(batch, batch.column(op), batch.column(named["__unchanged" if self._statements.key else "__count"]))
        stored = len(self._statements.pairs)
        arrays = [*batch.columns[:stored], batch.column(op), extra, *batch.columns[stored:width]]
        schema = schema_of(self._statements.staged)
        return pa.RecordBatch.from_arrays(arrays[: len(schema)], schema=schema)

    def _check_ops(self, ops: pa.Array) -> None:
        unknown = set(pc.unique(ops).to_pylist()) - _OPS[bool(self._statements.key)]
        if unknown:
            raise HoldfastError(f"the changes of {self._table.label} are of an unknown kind: {unknown}")

    def _note_updates(self, batch: pa.RecordBatch, ops: pa.Array, unchanged: pa.Array) -> pa.Array:
        """Record updates, and return the numbers of unchanged columns as text between commas."""
        staged = self._staged
        staged.inserted += digest(self._columns, batch.filter(pc.equal(ops, INSERTED)))
        staged.updates += pc.sum(pc.equal(ops, UPDATED)).as_py() or 0
        staged.unchanged.update(pc.unique(pc.list_flatten(unchanged)).to_pylist())
        numbers = pc.binary_join(unchanged.cast(pa.list_(pa.string())), ",")
        return pc.binary_join_element_wise(",", numbers, ",", "")

    def _note_copies(self, batch: pa.RecordBatch, ops: pa.Array, copies: pa.Array) -> pa.Array:
        staged = self._staged
        staged.deleted += pc.sum(copies.filter(pc.equal(ops, DELETED))).as_py() or 0
        inserted = batch.filter(pc.equal(ops, INSERTED))
        counts = copies.filter(pc.equal(ops, INSERTED))
        for count in pc.unique(counts).to_pylist():
            staged.inserted += digest(self._columns, inserted.filter(pc.equal(counts, count))) * count
        return copies

    def _complete(self) -> None:
        staged = self._staged
        if staged.updates:
            found = self._do(self._statements.complete(staged.unchanged))
            if found != staged.updates:
                raise self._misfit(f"{staged.updates - found} of {staged.updates} rows to be updated are missing")

    def _delete(self) -> tuple[ContentHash, ContentHash]:
        """Delete rows, and return the hashes of all columns and of ordinary ones."""
        rows, total, plain, updated = self._numbers(self._statements.delete())
        if updated > self._staged.updates:
            raise self._misfit(f"{self._staged.updates} rows to be updated are there {updated} times")
        missing = self._staged.deleted - rows
        if missing and not self._statements.key:
            raise self._misfit(f"{missing} of {self._staged.deleted} rows to be deleted are missing")
        return ContentHash(rows, total), ContentHash(rows, plain)

    def _insert(self) -> tuple[ContentHash, ContentHash]:
        statements, inserted = self._statements, self._staged.inserted
        if self._staged.updates:
            inserted += ContentHash(*self._numbers(statements.hash_updated()))
        if not statements.has_generated:
            self._do(statements.insert())
            return inserted, inserted
        rows, total, plain = self._numbers(statements.insert_and_hash())
        if ContentHash(rows, plain) != inserted:
            raise DamagedError(f"{self._table.label}: the rows that came are not those of the archive's changes")
        return ContentHash(rows, total), inserted

    def _misfit(self, what: str) -> MissingRowsError:
        return MissingRowsError(f"{self._table.label}: the archive's changes do not fit its base: {what}")

    def _do(self, statement: str) -> int:
        return self._session.execute(statement.encode()).rowcount

    def _numbers(self, query: str) -> list[int]:
        row = self._session.execute(query.encode()).fetchone()
        if row is None:
            raise HoldfastError(f"the server counted nothing in {self._table.label}")
        return [int(value) for value in row]


class _Pair(NamedTuple):
    """A column of the table and the one that stages its values."""

    own: StoredColumn
    staged: StoredColumn


@dataclass(frozen=True)
class _Statements:
    """Statements that apply staged changes to a table; without indexes, each joins the whole table by hash.

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
        return f"create temporary table {_STAGE} ({types}) on commit drop"

    def analyze(self) -> str:
        numbers = (self.op.number, *self.key)
        names = ", ".join(ident(each.name) for each in self.staged if each.number in numbers)
        return f"analyze {_STAGE} ({names})"

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
            f"update {_STAGE} set {values} from only {self.name} t where {self._has_op(UPDATED)} and {self._same_key()}"
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
            using, condition, updated = _STAGE, self._same_key(), self._has_op(UPDATED)
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
            f"select {self._row('staged')} as content, sum({ident(self.more.name)}) as copies from {_STAGE} "
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
        return hash_select(f"{_STAGE} where {self._has_op(UPDATED)}", self.values, encoding=self.encoding)

    def insert(self) -> str:
        own, staged = (", ".join(ident(column.name) for column in columns) for columns in (self.plain, self.values))
        into = f"{self.name} ({own}) overriding system value" if own else self.name
        copies = "" if self.key else f" cross join lateral pg_catalog.generate_series(1, {ident(self.more.name)})"
        return f"insert into {into} select {staged} from {_STAGE}{copies} where not {self._has_op(DELETED)}"

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
