"""One table, as the server's catalog tells of it, and what may have become of its rows since that told otherwise."""

from __future__ import annotations

from typing import Any

from holdfast.sources.postgresql.catalog.columns import Column  # noqa: TC001 - pydantic reads it at run time
from holdfast.sources.postgresql.catalog.large_objects import KEPT_PAGES, LARGE_OBJECTS
from holdfast.sources.postgresql.catalog.record import CatalogRecord

_ENUM = "e"
"""Of pg_type.typtype."""

_BY_INDEX, _BY_ALL, _BY_NOTHING = "ifn"
"""Of pg_class.relreplident."""


class Table(CatalogRecord):
    """One table.

    :param kind: pg_class.relkind: r table, p partitioned (its rows are in its partitions), f foreign.
    :param persistence: p permanent, u unlogged.
    :param key: columns of the primary key, in its order; not those of a deferrable one, by which rows cannot be told
        apart within a transaction.
    :param key_oid: of that constraint, in pg_constraint; 0 where there is none or a release did not record it.
    :param filenode: of its heap: another one after every TRUNCATE and rewrite; 0 where a release did not record it.
    :param identity: numbers of the columns of the index that REPLICA IDENTITY USING INDEX names.
    :param form: changes with every change of its columns, also one that was taken back; "" where it is not recorded.
    :param expressions: of generated columns, each behind its column's number.
    :param toast: oid of the table of its large values: another one after every ALTER TABLE that writes the rows anew,
        and after no TRUNCATE; 0 where there is none, or a release did not record it.
    :param pages: of the heap, when the snapshot was taken; `size` also counts TOAST, in bytes.
    """

    oid: int
    table_schema: str
    name: str
    kind: str
    persistence: str
    replica_identity: str
    access_method: str | None
    parents: tuple[int, ...]
    bound: str | None
    owner: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    pages: int
    size: int
    estimated_rows: int
    filenode: int = 0
    identity: tuple[int, ...] = ()
    form: str = ""
    key_oid: int = 0
    expressions: tuple[str, ...] = ()
    toast: int = 0

    @property
    def label(self) -> str:
        """Return `schema.name`, for people."""
        return f"{self.table_schema}.{self.name}"

    @property
    def has_rows(self) -> bool:
        """Say whether the table holds rows of its own in this database."""
        return self.kind == "r"

    @property
    def primary(self) -> tuple[int, ...]:
        """Return the numbers of the columns of the primary key, in its order."""
        numbers = {column.name: column.number for column in self.columns}
        return tuple(numbers[name] for name in self.key)

    @property
    def key_numbers(self) -> tuple[int, ...]:
        """Return the numbers of the columns by which changes tell rows apart; none where only whole rows do."""
        by_kind = {_BY_INDEX: self.identity, _BY_NOTHING: ()}
        return by_kind.get(self.replica_identity, self.primary)

    @property
    def tells_apart(self) -> tuple[Any, ...]:
        """Return what the log tells rows apart by: kind of replica identity, columns of its index and of the key."""
        return self.replica_identity, self.identity, self.primary

    @property
    def last_number(self) -> int:
        """Return the highest number that a column of it ever had, as far as that is recorded."""
        recorded = self.form.partition(":")[0]
        return int(recorded) if recorded else max((column.number for column in self.columns), default=0)

    def has_key_of(self, before: Table) -> bool:
        """Say whether rows are told apart as before, and were all the time, as far as no change shows another key.

        Where the log holds whole old rows, changes show none: a primary key that was dropped and made anew is another.
        """
        same = self.tells_apart == before.tells_apart
        return same and (self.replica_identity != _BY_ALL or self.has_primary_of(before))

    def has_primary_of(self, before: Table) -> bool:
        """Say whether the primary key is the very one it was."""
        known = self.key_oid and before.key_oid
        return self.primary == before.primary and (not known or self.key_oid == before.key_oid)

    @property
    def has_own_types(self) -> bool:
        """Say whether a column is of a type that is not PostgreSQL's own, and that labels or attributes may be in."""
        return any(
            column.base_schema != "pg_catalog" and (column.holds_others or column.kind == _ENUM)
            for column in self.columns
        )

    def is_rewritten(self, before: Table) -> bool:
        """Say whether rows may have got other values in a way that the log does not tell.

        Only ALTER TABLE gives them some, and changes what the catalog says of the table's columns. TRUNCATE, which the
        log tells, VACUUM FULL and CLUSTER leave that alone, but where columns have values that stand in the catalog
        only: of these the latter two make values of the rows, and columns of older rows that nothing tells.

        :param before: what it was.
        """
        if self.filenode == before.filenode or (self.form and self.form == before.form):
            return False
        return not (self._has_large_values_of(before) and self._tells_missing_of(before))

    def may_have_been_unlogged(self, before: Table) -> bool:
        """Say whether the table may have been unlogged for a while, when the log told nothing of its rows.

        PostgreSQL refuses that of a table that is published by its own name, but not of a partition of one. ALTER TABLE
        writes the rows anew both ways.

        :param before: what it was.
        """
        is_refiled = self.filenode != before.filenode
        return self.bound is not None and is_refiled and not self._has_large_values_of(before)

    def _has_large_values_of(self, before: Table) -> bool:
        """Say whether it is certain that ALTER TABLE did not write the rows anew.

        That gives large values another table; TRUNCATE, VACUUM FULL and CLUSTER do not (ATRewriteTables() and
        copy_table_data() of PostgreSQL's source).
        """
        return self.toast != 0 and self.toast == before.toast

    def _tells_missing_of(self, before: Table) -> bool:
        """Say whether each column tells what older rows have in it, if that is not what they had before."""
        had = {column.number: column.missing for column in before.columns}
        return all(column.missing is not None or had.get(column.number, "") is None for column in self.columns)

    def holds(self, before: Table) -> bool:
        """Say whether rows of what it was are rows of what it is, whatever became of them since.

        :param before: what it was.
        """
        if self.is_filled(before):
            return False
        same = before.columns == self.columns and before.expressions == self.expressions
        return same or not self.is_rewritten(before)

    def is_filled(self, before: Table) -> bool:
        """Say whether a column has become an ordinary one that was generated: changes until then do not hold it.

        :param before: what it was.
        """
        generated = {column.number for column in before.columns if column.generated}
        return any(column.number in generated and not column.generated for column in self.columns)

    @property
    def kept_rows(self) -> str:
        """Return the SQL condition under which a row is backed up; "" means all are."""
        return KEPT_PAGES if self.oid == LARGE_OBJECTS else ""
