"""Holdfast's own record of a database's objects, kept with each block beside pg_dump's.

Reading rows, comparing them and restoring single tables need ids, types, keys and partition trees,
which a dump does not tell. It is read inside the snapshot, in the session that holds the locks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import Field, PrivateAttr

from holdfast.common.errors import UsageError
from holdfast.postgresql.catalog.database_settings import DatabaseSettings  # noqa: TC001 - pydantic reads it at run time
from holdfast.postgresql.catalog.definitions import Definition  # noqa: TC001 - pydantic reads it at run time
from holdfast.postgresql.catalog.extension_rows import Configuration  # noqa: TC001 - pydantic reads it at run time
from holdfast.postgresql.catalog.large_objects import LargeObjectGroup  # noqa: TC001 - pydantic reads it at run time
from holdfast.postgresql.catalog.own_objects import LEDGER
from holdfast.postgresql.catalog.record import CatalogRecord
from holdfast.postgresql.catalog.roles import Roles  # noqa: TC001 - pydantic reads it at run time
from holdfast.postgresql.catalog.sequences import SequenceValue  # noqa: TC001 - pydantic reads it at run time
from holdfast.postgresql.catalog.table import Table  # noqa: TC001 - pydantic reads it at run time
from holdfast.postgresql.catalog.tablespaces import Tablespace  # noqa: TC001 - pydantic reads it at run time

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

RECORD_VERSION = 1

_LABEL = re.compile("label ([0-9]+)")
"""What `types` calls one."""

_OF_LABEL = re.compile("label (?:row )?([0-9]+)")
"""Pattern of the names that `types` has for a label and for its row."""

_ROWS = "type rows "
"""What `types` calls the attributes of a composite type that columns are of, before its oid."""


class NamedRelation(CatalogRecord):
    """A relation named by schema and name."""

    relation_schema: str
    name: str


class Catalog(CatalogRecord):
    """Catalog record of a database.

    :param materialized_views: in an order in which they can be refreshed.
    :param references: foreign keys, as oids of the table that refers and the one referred to.
    :param roles: names of those that own or may use something.
    :param role_details: what these are; None where a release has not recorded it yet, like what follows.
    :param tablespaces: that something is in, besides the database's own.
    :param database_settings: what is set on the database itself.
    :param large_objects: pg_largeobject, where the database has large objects.
    :param configuration: rows that extensions keep for their users.
    :param definitions: those that ask operators other than PostgreSQL's own.
    :param types: how values of enums and composite types are written: by label or type, by what these are kept as, and
        by its rows in the server's catalog.
    :param enums: labels by `schema.name` of the type, and of that of its arrays; `enum_oids`: the type's oid by both.
    :param label_types: oid of its enum by that of a label.
    """

    record_version: int = RECORD_VERSION
    database: str
    server_version: int
    encoding: str
    tables: tuple[Table, ...]
    sequences: tuple[SequenceValue, ...]
    materialized_views: tuple[NamedRelation, ...]
    references: tuple[tuple[int, int], ...]
    roles: tuple[str, ...]
    role_details: Roles | None = None
    tablespaces: tuple[Tablespace, ...] | None = None
    database_settings: DatabaseSettings | None = None
    large_objects: Table | None = None
    large_object_groups: tuple[LargeObjectGroup, ...] = ()
    configuration: tuple[Configuration, ...] = ()
    definitions: tuple[Definition, ...] = ()
    types: Mapping[str, str] = Field(default_factory=dict)
    enums: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    enum_oids: Mapping[str, int] = Field(default_factory=dict)
    label_types: Mapping[int, int] = Field(default_factory=dict)
    _since: tuple[Catalog, TypesSince] | None = PrivateAttr(default=None)

    def types_since(self, before: Catalog) -> TypesSince:
        """Return the differences of types since an earlier record.

        They are computed once for all tables.
        """
        if self._since is None or self._since[0] is not before:
            self._since = (before, TypesSince.between(before, self))
        return self._since[1]

    def may_hide_others(self, table: Table) -> bool:
        """Return whether a table's values may contain enum labels or other nested values.

        Values of composite types may, for example.
        """
        return any(
            column.holds_others and f"{column.base_schema}.{column.base}" not in self.enums
            for column in table.columns
            if column.base_schema != "pg_catalog"
        )

    def types_altered(self, before: Catalog, table: Table) -> bool:
        """Return whether values of a table's own types may be written differently than before.

        Own types are its enums and composite types.
        """
        if not table.has_own_types:
            return False
        since = self.types_since(before)
        if not since.altered or self.may_hide_others(table):
            return bool(since.altered)
        own = {f"{column.base_schema}.{column.base}" for column in table.columns if column.base_schema != "pg_catalog"}
        # What a release has not recorded may be of any type.
        return not since.altered_enums.isdisjoint({None, *(self.enum_oids.get(name) for name in own)})

    def with_rows(self, globs: Sequence[str] = (), exclude: Sequence[str] = ()) -> tuple[Table, ...]:
        """Return the tables with rows to back up.

        They match a glob (without globs, all do) and no exclusion.

        Large objects are among them, as pg_catalog.pg_largeobject.

        :raises UsageError: a glob matches nothing.
        """
        tables = (*self.tables, self.large_objects) if self.large_objects else self.tables
        return tuple(
            table
            for table in _matching(tables, globs)
            if table.has_rows and not any(fnmatchcase(table.label, glob) for glob in exclude)
        )

    @property
    def holds_ledger(self) -> bool:
        """Return whether the record includes a restore's own schema.

        Older releases backed it up where a restore had left it in the source.
        """
        return any(table.table_schema == LEDGER for table in self.tables)

    def without_ledger(self) -> Catalog:
        """Return the record without the schema of restores."""
        return self.model_copy(
            update={
                "tables": tuple(table for table in self.tables if table.table_schema != LEDGER),
                "sequences": tuple(value for value in self.sequences if value.sequence_schema != LEDGER),
            }
        )

    def with_fields(self, fields: Mapping[str, Any]) -> Catalog:
        """Return the record with some fields replaced."""
        return Catalog(**{**dict(self), **fields})

    def with_tables(self, other: Catalog, oids: Container[int]) -> Catalog:
        """Return the record with some tables as another record has them."""
        theirs = {table.oid: table for table in other.tables if table.oid in oids}
        return self.with_fields({"tables": tuple(theirs.get(table.oid, table) for table in self.tables)})

    def matching(self, globs: Sequence[str], option: str = "--tables") -> tuple[Table, ...]:
        """Return the tables that match a glob; without globs, all.

        :param globs: such as `shop.*` or `*.orders`, matched against `schema.name`.
        :param option: that they were given by.
        :raises UsageError: a glob matches nothing.
        """
        return _matching(self.tables, globs, option)

    def tree_of(self, tables: Iterable[Table]) -> frozenset[int]:
        """Return the oids of tables, and of all partitions below them."""
        found = {table.oid for table in tables}
        while more := {
            table.oid
            for table in self.tables
            if table.bound is not None and table.oid not in found and found.intersection(table.parents)
        }:
            found |= more
        return frozenset(found)

    def broken_references(self, chosen: Iterable[Table]) -> tuple[str, ...]:
        """Return the foreign keys that the chosen tables alone may violate.

        Each is written as "a refers to b".
        """
        kept = {table.oid for table in chosen}
        tables = {table.oid: table for table in self.tables}
        partitions: dict[int, list[int]] = {}
        for table in self.tables:
            for parent in table.parents:
                partitions.setdefault(parent, []).append(table.oid)

        def leaves(oid: int) -> Iterator[int]:
            if tables[oid].kind == "r":
                yield oid
            elif tables[oid].kind == "p":
                for each in partitions.get(oid, ()):
                    yield from leaves(each)

        # A partitioned table may be referred to by each of its partitions' neighbours.
        some = cache(lambda oid: any(leaf in kept for leaf in leaves(oid)))
        every = cache(lambda oid: all(leaf in kept for leaf in leaves(oid)))
        return tuple(
            f"{tables[refers].label} refers to {tables[referred].label}"
            for refers, referred in self.references
            if refers in tables and referred in tables and some(refers) and not every(referred)
        )


@dataclass(frozen=True)
class TypesSince:
    """Differences of types between two records.

    :param labels: those that enums have and had not before, by type as in `Catalog.enums`; only of types with such.
    :param composites: columns are of a composite type that none was of before: nobody knows what was altered in it.
    :param altered: what of `Catalog.types` is written otherwise.
    :param altered_enums: oids of the enums that this is of, and None where a release has not recorded of which one.
    """

    labels: Mapping[str, frozenset[str]]
    composites: bool
    altered: frozenset[str]
    altered_enums: frozenset[int | None]

    @classmethod
    def between(cls, before: Catalog, now: Catalog) -> TypesSince:
        """Compare two records."""
        altered = frozenset(name for name, written in before.types.items() if now.types.get(name, written) != written)
        labels = [int(found[1]) for name in altered if (found := _OF_LABEL.fullmatch(name))]
        return cls(
            _labels_since(before, now),
            any(name.startswith(_ROWS) for name in now.types.keys() - before.types.keys()),
            altered,
            frozenset(before.label_types.get(label) for label in labels),
        )


def _labels_since(before: Catalog, now: Catalog) -> dict[str, frozenset[str]]:
    added = {label for name, label in now.types.items() if _LABEL.fullmatch(name) and before.types.get(name) != label}
    past = {oid: before.enums[name] for name, oid in before.enum_oids.items() if name in before.enums}
    found = {}
    for name, labels in now.enums.items():
        known = past.get(now.enum_oids.get(name, 0), () if before.enum_oids else before.enums.get(name, ()))
        if new := added.intersection(labels).difference(known):
            found[name] = frozenset(new)
    return found


def _matching(tables: tuple[Table, ...], globs: Sequence[str], option: str = "--tables") -> tuple[Table, ...]:
    for glob in globs:
        if tables and not any(fnmatchcase(table.label, glob) for table in tables):
            # Without their schemas, which would make any two names alike.
            near = get_close_matches(glob.rpartition(".")[2], [table.name for table in tables], n=1)
            labels = [table.label for table in tables if table.name in near]
            hint = f"; did you mean '{labels[0]}'?" if labels else f", such as {tables[0].label}"
            raise UsageError(f"{option} {glob} matches no table; they are named schema.table{hint}")
    return tuple(table for table in tables if not globs or any(fnmatchcase(table.label, glob) for glob in globs))
