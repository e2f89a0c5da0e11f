"""Plan of a restore, made before anything is changed."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.postgresql.catalog.large_objects import LARGE_OBJECTS
from holdfast.postgresql.connection.sql import qualified
from holdfast.postgresql.dump.sql_tokens import tokens
from holdfast.postgresql.restore.plan.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from holdfast.postgresql.catalog.catalog import NamedRelation
    from holdfast.postgresql.catalog.definitions import Definition
    from holdfast.postgresql.catalog.extension_rows import Configuration
    from holdfast.postgresql.catalog.large_objects import LargeObjectGroup
    from holdfast.postgresql.catalog.sequences import SequenceValue
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.dump.dump_entries import DumpEntry
    from holdfast.postgresql.restore.plan.name_maps import Name


_TABLESPACE = re.compile(r"SET default_tablespace = ([^;]*); ?")


@dataclass(frozen=True)
class PlannedTable:
    """Table to create, and to load where it has rows of its own.

    :param target: as it will be called; its columns name types as they will be called.
    :param rows: in its snapshot in the archive; 0 for a table without rows of its own.
    :param size: of its files in the archive, in bytes.
    """

    source: Table
    target: Table
    rows: int
    size: int
    changes: int = 0


@dataclass(frozen=True)
class NotRestored:
    """Object that is not restored, the reason, and a statement that adds it later, or ""."""

    what: str
    reason: str
    statement: str = ""

    def describe(self) -> dict[str, str]:
        """Return the object for scripts."""
        return {"object": self.what, "reason": self.reason, "statement": self.statement}

    @classmethod
    def from_dict(cls, described: Mapping[str, str]) -> NotRestored:
        """Return the object that `describe` described."""
        return cls(described["object"], described["reason"], described["statement"])


@dataclass(frozen=True)
class RestorePlan:
    """All changes of a restore to its target, and its omissions.

    :param entries: what is created, with its SQL as it will run, in this order.
    :param borrowed: numbers of those that rows may not satisfy: foreign keys that lead to tables the target has
        already, keys and indexes of tables whose rows are of another moment, and what needs one of these.
    :param renamed: indexes, sequences and statistics whose names are taken or follow their table's.
    :param touches: what of the target's own is locked or changed, in words.
    :param unchanged: what speaks of mapped names in texts that are not rewritten.
    :param beside: other things may be in the target, so what is created must be kept apart from them.
    :param empty: oids, in the source, of tables that come without their rows.
    :param is_strict: nothing that follows the rows gives way to them, but for what is borrowed, which ends the restore
        when all else is done.
    :param runs: what is run of entries that the role may not run as they are, by their numbers.
    :param is_built_apart: a login of the restore's own builds everything, and owns it until the end.
    :param superusers: numbers of the entries that a superuser creates then (`rights.superuser_entries`).
    :param definitions: those that ask operators, by the number of the entry that creates them.
    """

    tables: tuple[PlannedTable, ...]
    entries: tuple[DumpEntry, ...]
    sequences: tuple[SequenceValue, ...]
    materialized_views: tuple[NamedRelation, ...]
    roles: tuple[str, ...]
    borrowed: frozenset[int] = frozenset()
    renamed: tuple[tuple[str, str], ...] = ()
    skipped_existing: tuple[str, ...] = ()
    not_restored: tuple[NotRestored, ...] = ()
    touches: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    beside: bool = True
    large_objects: tuple[LargeObjectGroup, ...] = ()
    configuration: tuple[Configuration, ...] = ()
    empty: frozenset[int] = frozenset()
    is_strict: bool = False
    runs: Mapping[int, str] = field(default_factory=dict)
    is_built_apart: bool = False
    login: str = ""
    superusers: Mapping[int, bool] = field(default_factory=dict)
    definitions: Mapping[int, Sequence[Definition]] = field(default_factory=dict)

    @cached_property
    def by_id(self) -> Mapping[int, DumpEntry]:
        return {entry.id: entry for entry in self.entries}

    @cached_property
    def table_names(self) -> frozenset[str]:
        """Return the tables as they will be called, as the server writes them."""
        return frozenset(qualified(table.target.table_schema, table.target.name) for table in self.tables)

    @cached_property
    def digest(self) -> str:
        """Return a digest of the entries in their order.

        Another plan has another one, also if only the role that builds it differs, or how it is cut into steps.
        """
        texts = ((entry.id, entry.settings, entry.sql) for entry in self.entries)
        apart = ["extensions apart", *(["built by a login of its own"] if self.is_built_apart else [])]
        empty = [f"without rows: {oid}" for oid in sorted(self.empty)]
        return hashlib.sha256(json.dumps([*texts, *apart, *empty]).encode()).hexdigest()

    @cached_property
    def tablespaces(self) -> tuple[str, ...]:
        """Return the names of the tablespaces that its entries are in."""
        settings = (setting for entry in self.entries for setting in _TABLESPACE.findall(entry.settings))
        return tuple(sorted({token.identifier for setting in settings for token in tokens(setting)} - {""}))

    def sql_of(self, entry: DumpEntry) -> str:
        """Return the SQL to run for an entry."""
        return self.runs.get(entry.id, entry.sql)

    def to_analyze(self, most: int) -> list[Name]:
        """Return the relations to gather statistics of; a partitioned table's include its partitions'.

        Those of a table with a foreign one below it would include what that one's server says.

        :param most: tables below a partitioned one, since all are locked at once; of one with more, each for itself.
        """
        apart = {table.oid for table in (*self._above_foreign, *self._above_many(most))}
        near = [table for table in self.tables if table.source.kind != "f" and table.target.oid not in apart]
        roots = {each.source.oid for each in near if each.source.kind == "p"}
        tables = [
            (each.target.table_schema, each.target.name) for each in near if not roots.intersection(each.source.parents)
        ]
        return [*tables, *((view.relation_schema, view.name) for view in self.materialized_views)]

    def not_analyzed(self, most: int) -> tuple[NotRestored, ...]:
        """Return the tables that have no statistics, each with the reason."""
        foreign = "a foreign table is below it, whose server is not asked"
        many = "it has more partitions than a restore locks at once (max_locks_per_transaction); each has its own"
        reasons = {qualified(table.table_schema, table.name): many for table in self._above_many(most)}
        reasons |= {qualified(table.table_schema, table.name): foreign for table in self._above_foreign}
        return tuple(NotRestored(f"statistics of {name}", why, f"analyze {name};") for name, why in reasons.items())

    def _above_many(self, most: int) -> tuple[Table, ...]:
        below = Counter(oid for table in self.tables for oid in self._above(table))
        return tuple(
            table.target for table in self.tables if table.source.kind == "p" and below[table.source.oid] > most
        )

    @cached_property
    def _above_foreign(self) -> tuple[Table, ...]:
        """Return the created tables with foreign ones below them, as partitions or heirs."""
        found = {oid for table in self.tables if table.source.kind == "f" for oid in self._above(table)}
        return tuple(table.target for table in self.tables if table.source.oid in found and table.source.kind != "f")

    def _above(self, table: PlannedTable) -> set[int]:
        found: set[int] = set()
        waiting = [*table.source.parents]
        while waiting:
            if (oid := waiting.pop()) not in found:
                found.add(oid)
                waiting += self._parents.get(oid, ())
        return found

    @cached_property
    def _parents(self) -> dict[int, tuple[int, ...]]:
        return {table.source.oid: table.source.parents for table in self.tables}

    def size(self) -> dict[str, int]:
        """Return how much comes back: tables, rows, stored bytes and changes, and the source's disk space of it."""
        loaded = [table for table in self.tables if table.source.has_rows and table.source.oid not in self.empty]
        return {
            "tables": len(loaded),
            "rows": sum(table.rows for table in loaded),
            "bytes": sum(table.size for table in loaded),
            "changes": sum(table.changes for table in loaded),
            "disk_bytes": sum(table.source.size for table in loaded),
        }

    def describe(self) -> dict[str, Any]:
        """Return the plan for people and scripts; the keys are part of the public surface."""
        return {
            "tables": [
                {
                    "from": table.source.label,
                    "to": table.target.label,
                    "rows": table.rows,
                    "bytes": table.size,
                    "changes": table.changes,
                }
                for table in self.tables
            ],
            "objects": [
                {"kind": entry.word, "name": entry.full_name} for entry in self.entries if not Selection.is_table(entry)
            ],
            "renamed": [{"from": old, "to": new} for old, new in self.renamed],
            "skipped_existing": list(self.skipped_existing),
            "not_restored": [each.describe() for each in self.not_restored],
            "touches": list(self.touches),
            "unchanged": list(self.unchanged),
        }


_OWNED_BY_SUPERUSERS = re.compile(
    r"^ALTER (EVENT TRIGGER|FOREIGN DATA WRAPPER|PUBLICATION|SUBSCRIPTION) .* OWNER TO .*;$", re.MULTILINE
)


def without_superusers(plan: RestorePlan) -> RestorePlan:
    """Return a plan without owners that only superusers can be.

    Such objects then belong to the restoring role: no other role of the server is a superuser.
    """
    entries = tuple(replace(entry, sql=_OWNED_BY_SUPERUSERS.sub("", entry.sql)) for entry in plan.entries)
    return replace(plan, entries=entries)


def without_rows(plan: RestorePlan, tables: Collection[int], reason: str) -> RestorePlan:
    """Return a plan that creates tables without their rows, and names them."""
    found = [table.source for table in plan.tables if table.source.oid in tables and table.source.has_rows]
    left = tuple(NotRestored(f"rows of table {table.label}", reason) for table in found)
    empty = frozenset(table.oid for table in found)
    planned = tuple(replace(table, rows=0, size=0) if table.source.oid in empty else table for table in plan.tables)
    return replace(plan, tables=planned, empty=empty, not_restored=(*plan.not_restored, *left))


def schema_only(plan: RestorePlan) -> RestorePlan:
    """Return a plan of definitions alone: no rows, no large objects, and sequences at their beginning."""
    tables = tuple(table for table in plan.tables if table.source.oid != LARGE_OBJECTS)
    empty = frozenset(table.source.oid for table in tables if table.source.has_rows)
    left = (*plan.not_restored, NotRestored("all rows, large objects and values of sequences", "--schema-only"))
    return replace(
        plan, tables=tables, empty=empty, sequences=(), large_objects=(), configuration=(), not_restored=left
    )


def data_only(plan: RestorePlan) -> RestorePlan:
    """Return a plan of rows alone, and of the values of sequences: nothing is created."""
    others = {*plan.empty, LARGE_OBJECTS}
    tables = tuple(table for table in plan.tables if table.source.has_rows and table.source.oid not in others)
    count = sum(group.count for group in plan.large_objects)
    left = [NotRestored(f"{count} large objects", "--data-only")] if count else []
    left += [NotRestored(each.label, "--data-only") for each in plan.configuration if each.rows]
    for view in plan.materialized_views:
        what = f"rows of materialized view {view.relation_schema}.{view.name}"
        statement = f"refresh materialized view {qualified(view.relation_schema, view.name)};"
        left.append(NotRestored(what, "--data-only", statement))
    return RestorePlan(
        tables=tables,
        entries=(),
        sequences=plan.sequences,
        materialized_views=(),
        roles=(),
        not_restored=tuple(left),
        empty=plan.empty,
    )


def without_tablespaces(plan: RestorePlan) -> RestorePlan:
    """Return a plan that creates everything in the target's own tablespace, and says so."""
    reason = "what was in it is created in the tablespace of the target's database"
    left = tuple(NotRestored(f"tablespace {name}", reason) for name in plan.tablespaces)
    entries = tuple(replace(entry, settings=_TABLESPACE.sub("", entry.settings)) for entry in plan.entries)
    return replace(plan, entries=entries, not_restored=(*plan.not_restored, *left))
