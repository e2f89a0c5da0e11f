"""Net changes of a table, staged by COPY and applied to its loaded rows.

Every row that goes or comes is hashed, so that what the table must hold afterwards is known without trusting the
target: `Applied.after`. Stored generated columns are not in changes: the target computes them again. Where a table has
some, the server hashes the rows that came twice: without these columns, to compare them with the archive, and with
them, to join the hash of the base, which has them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.common.errors import DamagedError, HoldfastError, MissingRowsError
from holdfast.postgresql.restore.rows.net_statements import DELETED, EMPTIED, INSERTED, STAGE, UPDATED, NetStatements
from holdfast.postgresql.restore.rows.staging_tables import not_taken
from holdfast.postgresql.values.content_hash import ContentHash, digest
from holdfast.postgresql.values.encode import copy_in
from holdfast.postgresql.values.schema_evolution import is_same_schema
from holdfast.postgresql.values.stored_columns import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.session import Connection

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
        self._statements = NetStatements(table, key, encoding)
        self._columns = self._statements.plain
        self._staged = _Staged()

    def apply(self, batches: Iterable[pa.RecordBatch]) -> Applied:
        statements, staged = self._statements, self._staged
        # Without statistics the planner may take a large table for a small one, and join two by a nested loop.
        self._do("set local enable_nestloop = off")
        self._do("set local synchronous_commit = off")
        self._do(statements.create())
        with self._session.cursor() as cursor:
            copy_in(cursor, STAGE, statements.staged, map(self._stage, batches))
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
