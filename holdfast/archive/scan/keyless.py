"""Net changes of a table without a key: how often each row was added, less how often it was taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from holdfast.archive.scan.change_files import ORDER_SQL, Files, Shaper, last_truncation, within
from holdfast.archive.scan.projection import name_of, sql_type
from holdfast.common.field_ids import LSN, OP, SEQ

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from holdfast.archive.scan.change_files import FileRows
    from holdfast.archive.scan.table_history import TableHistory

_LONG: Final = 64
"""Bytes of a value; longer ones are compared by their SHA-256."""


def alike(field: pa.Field, name: str) -> list[tuple[str, str]]:
    """Return SQL expressions, with their types, that are the same for two values only if these are; 0 is not -0."""
    if pa.types.is_floating(field.type):
        return [(name, sql_type(field.type)), (f"signbit({name})", "boolean")]
    if pa.types.is_string(field.type):
        return [(f"case when strlen({name}) > {_LONG} then 's' || sha256({name}) else 'v' || {name} end", "varchar")]
    if pa.types.is_binary(field.type):
        short = f"'v' || hex({name})"
        return [(f"case when octet_length({name}) > {_LONG} then 's' || sha256({name}) else {short} end", "varchar")]
    return [(name, sql_type(field.type))]


class KeylessChanges:
    """Changes of a keyless table, counted.

    :param emptied: the order of the last change that emptied the table; what was before counts no more.
    """

    def __init__(self, connection: DuckDBPyConnection, history: TableHistory) -> None:
        self._sql = connection
        self._history = history
        values = [each for field in history.wanted for each in alike(field, name_of(field))]
        self._names = ", ".join(f"v{index}" for index in range(len(values)))
        self._values = ", ".join(expression for expression, _ in values)
        columns = ", ".join(f"v{index} {kind}" for index, (_, kind) in enumerate(values))
        connection.execute(f"create table events ({columns}, o hugeint, n bigint, pos bigint)")
        self.emptied: int | None = None

    def load(self, changes: Files) -> None:
        shaper = Shaper(self._history.wanted, self._history.missing)
        for part in changes.read():
            chosen = within(part, self._history.since, self._history.upto)
            emptied = last_truncation(part, chosen)
            self.emptied = max((each for each in (self.emptied, emptied) if each is not None), default=None)
            self._insert(part, shaper, chosen)
        if self.emptied is not None:
            self._sql.execute("delete from events where o <= ?", [self.emptied])

    def _insert(self, part: FileRows, shaper: Shaper, chosen: pa.Array) -> None:
        names = [*(name_of(field) for field in self._history.wanted), "lsn", "seq", "op", "pos"]
        extra = [part.column(each) for each in (LSN, SEQ, OP)]
        arrays = [*shaper.apply(part.batch).columns, *extra, part.places()]
        self._sql.register("incoming", pa.table(pa.RecordBatch.from_arrays(arrays, names=names).filter(chosen)))
        self._sql.execute(
            f"insert into events select {self._values}, {ORDER_SQL}, case op when 'I' then 1 else -1 end, pos "
            "from incoming where op <> 'T'"
        )
        self._sql.unregister("incoming")

    def settle(self) -> None:
        """Find the rows that are more or fewer now: table `picks` gets a place of each."""
        self._sql.execute(
            "create table picks as select pos, case when n > 0 then 'I' else 'D' end as op, abs(n)::bigint as count "
            f"from (select min(pos) as pos, sum(n) as n from events group by {self._names}) where n <> 0 order by pos"
        )
