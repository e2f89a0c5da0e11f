"""Selection of a dump's entries for chosen tables: created, existing in the target, or left out."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.common.lsn import PG_CLASS
from holdfast.postgresql.dump.dump_entries import TABLES
from holdfast.postgresql.dump.sql_tokens import chains

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.dump.dump_entries import DumpEntry
    from holdfast.postgresql.restore.plan.name_maps import NameMaps
    from holdfast.postgresql.restore.plan.target_state import Target

FOLLOWERS = frozenset({"ACL", "COMMENT", "SECURITY LABEL", "SEQUENCE OWNED BY", "USER MAPPING"})
"""Kinds that say something of the one entry that they need."""

ATTACHED = frozenset(
    {
        *("CHECK CONSTRAINT", "CONSTRAINT", "DEFAULT", "FK CONSTRAINT", "INDEX", "INDEX ATTACH", "POLICY"),
        *("ROW SECURITY", "RULE", "SEQUENCE", "STATISTICS", "TABLE ATTACH", "TRIGGER"),
    }
)
"""Kinds that belong to a table, a view or a domain, and come with it."""

_ATTACHING = frozenset({"TABLE ATTACH", "INDEX ATTACH"})
_OF_THE_DATABASE = ("EVENT TRIGGER", "PUBLICATION", "SUBSCRIPTION")
_BY_INDEX = frozenset({"INDEX", "CONSTRAINT"})

_OVER_GIST = re.compile(r"\bUSING gist\b|\bWITHOUT OVERLAPS\b")
"""Such a constraint may need btree_gist's operators, which pg_dump does not say."""

_WORTH_NAMING = frozenset({"FK CONSTRAINT", "POLICY", "RULE", "TABLE ATTACH", "TRIGGER"})
"""Attached kinds of other tables that speak of the chosen ones."""

_ADDED_LATER = frozenset(
    {"FK CONSTRAINT", "MATERIALIZED VIEW", "POLICY", "PUBLICATION TABLE", "RULE", "TABLE ATTACH", "TRIGGER", "VIEW"}
)

_STAYS_OUT = {
    "PUBLICATION TABLE": "what is published is not changed: add it when it is wanted",
    "VIEW": "views do not come with chosen tables",
    "MATERIALIZED VIEW": "views do not come with chosen tables",
    "TABLE": "it uses a chosen table, and is not chosen itself",
    "FUNCTION": "no chosen table needs it",
    "PROCEDURE": "no chosen table needs it",
}


@dataclass(frozen=True)
class LeftOut:
    """Entry that is not restored, with the reason; its SQL can be run later where `add_later`."""

    entry: DumpEntry
    reason: str
    add_later: bool = False


@dataclass
class Selection:
    """Selection of entries, as it grows, by their numbers.

    :param chosen: oids of the tables.
    :param whole: everything of the database, not just what the tables need.
    """

    entries: Sequence[DumpEntry]
    catalog: Catalog
    target: Target
    maps: NameMaps
    chosen: Collection[int]
    whole: bool = False
    created: dict[int, DumpEntry] = field(default_factory=dict)
    existing: dict[int, DumpEntry] = field(default_factory=dict)
    left_out: dict[int, LeftOut] = field(default_factory=dict)

    @cached_property
    def _by_id(self) -> Mapping[int, DumpEntry]:
        return {entry.id: entry for entry in self.entries}

    @cached_property
    def _owners(self) -> Mapping[int, DumpEntry]:
        return {entry.id: owner for entry in self.entries if (owner := self._find_owner(entry)) is not None}

    @cached_property
    def _partitions(self) -> Collection[int]:
        return {table.oid for table in self.catalog.tables if table.bound is not None}

    def owner(self, entry: DumpEntry) -> DumpEntry | None:
        """Return the relation, or other object, that an entry belongs to."""
        return self._owners.get(entry.id)

    def run(self) -> None:
        for entry in self.entries:
            if self._is_root(entry):
                self._take(entry, hard=True)
        grown = True
        while grown:
            waiting = [entry for entry in self.entries if self._may_follow(entry)]
            grown = sum(self._take(entry, hard=False) for entry in waiting) > 0
        self._tell_what_stays()

    def _is_root(self, entry: DumpEntry) -> bool:
        if self.whole:
            follows = entry.kind in FOLLOWERS or (entry.kind in ATTACHED and self.owner(entry) is not None)
            return not (follows or self._is_of_the_database(entry))
        return self.is_table(entry) and entry.oid in self.chosen

    def _is_of_the_database(self, entry: DumpEntry) -> bool:
        """Return whether an entry would act on existing objects of the target."""
        if not self.maps:
            return False
        if entry.kind == "DEFAULT ACL":
            return entry.schema not in self.maps.schemas
        return entry.kind.startswith(_OF_THE_DATABASE)

    @staticmethod
    def is_table(entry: DumpEntry) -> bool:
        """Return whether an entry is a table, whose oid is then one of the catalog record."""
        return entry.class_oid == PG_CLASS and entry.kind in TABLES

    def _may_follow(self, entry: DumpEntry) -> bool:
        if entry.id in self.created or entry.id in self.left_out or entry.id in self.existing:
            return False
        owner = self.owner(entry)
        return owner is not None and owner.id in self.created

    def _take(self, entry: DumpEntry, *, hard: bool) -> bool:
        """Take an entry with its dependencies, or leave it out with the reason; return whether it was taken.

        :param hard: tables and views that it needs come, too.
        """
        if entry.id in self.created:
            return False
        if hard and self._exists(entry):
            self.existing[entry.id] = entry
            return False
        found: dict[int, DumpEntry] = {}
        there: dict[int, DumpEntry] = {}
        reason = self._why_not_attached(entry) or self._gather(entry, hard, found, there)
        if reason:
            self.left_out[entry.id] = LeftOut(entry, reason, add_later=entry.kind in _ADDED_LATER)
            return False
        self.created.update(found)
        self.existing.update(there)
        return True

    def _why_not_attached(self, entry: DumpEntry) -> str:
        """Return why a partition is not attached: only two tables of this restore are put together."""
        if entry.kind == "TRIGGER" and not entry.sql.startswith("CREATE") and not self._parent_is_created(entry):
            return "it comes from a partitioned table that is not chosen"
        if entry.kind not in _ATTACHING:
            return ""
        apart = [other for other in self._needed(entry) if other.is_relation and other.id not in self.created]
        return f"{apart[0].label} is not chosen" if apart else ""

    def _parent_is_created(self, entry: DumpEntry) -> bool:
        owner = self.owner(entry)
        parents = {
            parent for table in self.catalog.tables if owner and table.oid == owner.oid for parent in table.parents
        }
        return any(self.is_table(other) and other.oid in parents for other in self.created.values())

    def _gather(self, entry: DumpEntry, hard: bool, found: dict[int, DumpEntry], there: dict[int, DumpEntry]) -> str:
        """Collect an entry and its dependencies; return the missing one, in words."""
        found[entry.id] = entry
        for other in self._needed(entry):
            if other.id in self.created or other.id in found:
                continue
            if self._exists(other):
                there[other.id] = other
                continue
            reason = self._why_not(other, hard) or self._gather(other, hard, found, there)
            if reason:
                return reason
        return ""

    def _why_not(self, needed: DumpEntry, hard: bool) -> str:
        if needed.id in self.left_out:
            return f"it needs {needed.label}, which is not restored"
        if needed.is_relation and not hard:
            return f"it needs {needed.label}, which is neither chosen nor in the target"
        return ""

    def _needed(self, entry: DumpEntry) -> Iterator[DumpEntry]:
        for each in self._raw_needs(entry):
            if (other := self._by_id.get(each)) is not None and not self._only_for_order(entry, other):
                yield other

    def _raw_needs(self, entry: DumpEntry) -> Iterator[int]:
        yield from entry.needs
        if entry.kind == "CONSTRAINT" and _OVER_GIST.search(entry.sql):
            yield from (other.id for other in self.entries if (other.kind, other.name) == ("EXTENSION", "btree_gist"))
        if entry.kind == "SEQUENCE OWNED BY":  # names the table, which only the sequence's entry needs
            for need in entry.needs:
                if (sequence := self._by_id.get(need)) is not None:
                    yield from sequence.needs

    def _only_for_order(self, entry: DumpEntry, other: DumpEntry) -> bool:
        if self.is_table(entry) and entry.oid in self._partitions:
            return self.is_table(other)  # attached later, by an entry of its own
        if entry.kind == "SEQUENCE" and entry.sql.startswith("CREATE "):
            return other.is_relation  # owned later
        return entry.kind in _BY_INDEX and other.kind in _BY_INDEX  # of the partitioned table

    def _exists(self, entry: DumpEntry) -> bool:
        """Return whether the target has an object and it is left as it is."""
        if self.is_table(entry) and (self.whole or entry.oid in self.chosen):
            return False
        owner = self.owner(entry)
        if owner is not None and owner.id in self.created:
            return False
        if entry.kind in ATTACHED and entry.kind != "SEQUENCE":
            return owner is not None and self._exists(owner)
        return self.target.has(entry.kind, *self._place(entry))

    def _place(self, entry: DumpEntry) -> tuple[str, str]:
        if entry.kind == "SCHEMA":
            return "", self.maps.schemas.get(entry.name, entry.name)
        return self.maps.of_table(entry.schema, entry.name) if self.is_table(entry) else self.maps.of(*_key(entry))

    def _find_owner(self, entry: DumpEntry) -> DumpEntry | None:
        needed = [self._by_id[need] for need in entry.needs if need in self._by_id]
        if entry.kind == "USER MAPPING":  # needs nothing, by pg_dump's account
            servers = (other for other in self.entries if other.kind == "SERVER")
            return next((server for server in servers if entry.name.endswith(f" SERVER {server.name}")), None)
        if entry.kind in FOLLOWERS:
            return next(iter(needed), None)
        if entry.kind not in ATTACHED:
            return None
        relations = [other for other in needed if other.is_relation or other.kind == "DOMAIN"]
        if len(relations) < 2:
            return next(iter(relations), None)
        names: dict[tuple[str, ...], DumpEntry] = {_key(other): other for other in relations}
        return next((names[chain[:2]] for chain in chains(entry.sql) if chain[:2] in names), relations[0])

    def references(self) -> Iterator[tuple[DumpEntry, DumpEntry]]:
        """Yield foreign keys to tables that the target has, each with that table."""
        for entry in self.created.values():
            if entry.kind == "FK CONSTRAINT":
                yield from ((entry, other) for other in self._needed(entry) if self._is_in_target(other))

    def inherited(self) -> Iterator[tuple[DumpEntry, DumpEntry]]:
        """Yield tables that inherit from one that the target has, each with that table."""
        for entry in self.created.values():
            if self.is_table(entry):
                yield from ((entry, other) for other in self._needed(entry) if self._is_in_target(other))

    def _is_in_target(self, entry: DumpEntry) -> bool:
        return self.is_table(entry) and entry.id not in self.created

    def _tell_what_stays(self) -> None:
        used = {entry.id for entry in self.created.values() if entry.is_relation}
        for entry in self.entries:
            if entry.id in self.created or entry.id in self.left_out:
                continue
            if self.whole:
                if entry.kind in (*_OF_THE_DATABASE, "DEFAULT ACL"):
                    # The statement of a subscription holds a password.
                    later = entry.kind != "SUBSCRIPTION"
                    self.left_out[entry.id] = LeftOut(entry, "it would act on the whole target", add_later=later)
            elif used.intersection(entry.needs) and (reason := self._why_it_stays(entry)):
                self.left_out[entry.id] = reason
                if entry.is_relation:
                    used.add(entry.id)

    def _why_it_stays(self, entry: DumpEntry) -> LeftOut | None:
        if reason := _STAYS_OUT.get(entry.kind):
            if entry.is_relation and self._exists(entry):
                return LeftOut(entry, f"{reason}; the target has it")
            return LeftOut(entry, reason, add_later=entry.kind in _ADDED_LATER)
        owner = self.owner(entry)
        if owner is not None and entry.kind == "RULE" and entry.name.endswith(" _RETURN"):
            return LeftOut(owner, _STAYS_OUT["VIEW"])  # the view itself, which needs a key that comes late
        if entry.kind not in _WORTH_NAMING or owner is None or not self.is_table(owner):
            return None
        alone = ": the partition becomes a table of its own" if entry.kind == "TABLE ATTACH" else ""
        return LeftOut(entry, f"{owner.label} is not chosen{alone}", add_later=entry.kind in _ADDED_LATER)


def _key(entry: DumpEntry) -> tuple[str, str]:
    return entry.schema, entry.name
