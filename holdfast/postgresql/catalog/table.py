"""Tables as the server's catalog describes them, and comparisons with an earlier description."""

from __future__ import annotations

from typing import Any

from holdfast.postgresql.catalog.columns import Column  # noqa: TC001 - pydantic reads it at run time
from holdfast.postgresql.catalog.large_objects import KEPT_PAGES, LARGE_OBJECTS
from holdfast.postgresql.catalog.record import CatalogRecord

_ENUM = "e"
"""Of pg_type.typtype."""

_BY_INDEX, _BY_ALL, _BY_NOTHING = "ifn"
"""Of pg_class.relreplident."""


UNKNOWN_BOUND = ""
"""Of a table that no catalog has: it may be a partition, and nobody knows its bound."""


class Table(CatalogRecord):
    """One table.

    :param kind: pg_class.relkind: r table, p partitioned (its rows are in its partitions), f foreign.
    :param persistence: p permanent, u unlogged.
    :param bound: of a partition: what its partitioned table says of its rows; None for any other table.
    :param key: columns of the primary key, in its order; not those of a deferrable one, by which rows cannot be told
        apart within a transaction.
    :param key_oid: of that constraint, in pg_constraint; 0 where there is none or a release did not record it.
    :param filenode: of its heap: another one after every TRUNCATE and rewrite; 0 where a release did not record it.
    :param identity: numbers of the columns of the index that REPLICA IDENTITY USING INDEX names.
    :param form: changes with every change of its columns, also one that was taken back; "" where it is not recorded.
    :param naming: changes with every change of its name or schema, also one that was taken back: versions of the rows
        of its schema and its row type in the server's catalog, and of one that stays as it was made; "" where a release
        did not record it.
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
    naming: str = ""
    key_oid: int = 0
    expressions: tuple[str, ...] = ()
    toast: int = 0

    @property
    def label(self) -> str:
        """Return `schema.name`, for people."""
        return f"{self.table_schema}.{self.name}"

    @property
    def has_rows(self) -> bool:
        """Return whether the table holds rows of its own in this database."""
        return self.kind == "r"

    @property
    def has_stored(self) -> bool:
        """Return whether it has stored generated columns."""
        return any(column.generated == "s" for column in self.columns)

    @property
    def primary(self) -> tuple[int, ...]:
        """Return the numbers of the columns of the primary key, in its order."""
        numbers = {column.name: column.number for column in self.columns}
        return tuple(numbers[name] for name in self.key)

    @property
    def key_numbers(self) -> tuple[int, ...]:
        """Return the numbers of the columns that identify rows in changes.

        There are none with REPLICA IDENTITY NOTHING, or without a key.
        """
        by_kind = {_BY_INDEX: self.identity, _BY_NOTHING: ()}
        return by_kind.get(self.replica_identity, self.primary)

    @property
    def tells_apart(self) -> tuple[Any, ...]:
        """Return the identity of rows in the log.

        It is the kind of replica identity, the columns of its index, and those of the primary key.
        """
        return self.replica_identity, self.identity, self.primary

    @property
    def last_number(self) -> int:
        """Return the highest column number ever used, as far as it is recorded.

        Where it is not, it is the highest of the columns that there are.
        """
        recorded = self.form.partition(":")[0]
        return int(recorded) if recorded else max((column.number for column in self.columns), default=0)

    def has_key_of(self, before: Table) -> bool:
        """Return whether rows are identified as before, and were so all the time.

        This holds as far as no change shows another key.

        Where the log holds whole old rows, changes show none: a primary key that was dropped and made again is another.
        """
        same = self.tells_apart == before.tells_apart
        return same and (self.replica_identity != _BY_ALL or self.has_primary_of(before))

    def has_primary_of(self, before: Table) -> bool:
        """Return whether the primary key is the same constraint as before.

        Where a release did not record its oid, the same columns are enough.
        """
        known = self.key_oid and before.key_oid
        return self.primary == before.primary and (not known or self.key_oid == before.key_oid)

    def has_name_of(self, before: Table) -> bool:
        """Return whether the table kept the name that it had before.

        Where a release did not record that, the same name is enough.
        """
        is_known = self.naming and before.naming
        return self.label == before.label and (not is_known or self.naming == before.naming)

    @property
    def has_first_name(self) -> bool:
        """Return whether the table has its first name, if recorded."""
        _, name, made = self.naming.split() if self.naming else ("", "", "")
        return name == made

    @property
    def has_own_types(self) -> bool:
        """Return whether a column has a user-defined type with labels or attributes.

        It is an enum or a type of nested values, and none of PostgreSQL's own.
        """
        return any(
            column.base_schema != "pg_catalog" and (column.holds_others or column.kind == _ENUM)
            for column in self.columns
        )

    def is_rewritten(self, before: Table) -> bool:
        """Return whether row values may have changed without a record in the log.

        Only ALTER TABLE gives them some, and changes what the catalog says of the table's columns. TRUNCATE, which the
        log tells, VACUUM FULL and CLUSTER leave that alone, but where columns have values that stand in the catalog
        only: of these the latter two make values of the rows, and columns of older rows that nothing tells.

        :param before: what it was.
        """
        if self.filenode == before.filenode or (self.form and self.form == before.form):
            return False
        return not (self._has_large_values_of(before) and self._tells_missing_of(before))

    def may_have_been_unlogged(self, before: Table) -> bool:
        """Return whether the table may have been unlogged for a while.

        The log then holds nothing of its rows.

        PostgreSQL refuses that of a table that is published by its own name, but not of a partition of one. ALTER TABLE
        rewrites the rows both ways.

        :param before: what it was.
        """
        is_refiled = self.filenode != before.filenode
        return self.bound is not None and is_refiled and not self._has_large_values_of(before)

    def _has_large_values_of(self, before: Table) -> bool:
        """Return whether it is certain that ALTER TABLE did not rewrite the rows.

        Such a rewrite gives large values another table; TRUNCATE, VACUUM FULL and CLUSTER do not (ATRewriteTables() and
        copy_table_data() of PostgreSQL's source).
        """
        return self.toast != 0 and self.toast == before.toast

    def _tells_missing_of(self, before: Table) -> bool:
        """Return whether the value of older rows is recorded for each column.

        A column without such a record counts, too, if it was there before and had none then either.
        """
        had = {column.number: column.missing for column in before.columns}
        return all(column.missing is not None or had.get(column.number, "") is None for column in self.columns)

    def holds(self, before: Table) -> bool:
        """Return whether rows of the earlier table are valid rows of this one.

        :param before: what it was.
        """
        if self.is_filled(before):
            return False
        same = before.columns == self.columns and before.expressions == self.expressions
        return same or not self.is_rewritten(before)

    def is_filled(self, before: Table) -> bool:
        """Return whether a generated column has become an ordinary one.

        Changes until then do not hold its values.

        :param before: what it was.
        """
        generated = {column.number for column in before.columns if column.generated}
        return any(column.number in generated and not column.generated for column in self.columns)

    @property
    def kept_rows(self) -> str:
        """Return the SQL condition for rows that are backed up; "" means all."""
        return KEPT_PAGES if self.oid == LARGE_OBJECTS else ""
