"""Objects of a schema dump: each with the entries that create it and that are about it."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from holdfast.postgresql.dump.dump_entries import RELATIONS
from holdfast.postgresql.dump.sql_tokens import chains

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.postgresql.dump.dump_entries import DumpEntry

COMMENTS: Final = frozenset({"COMMENT"})
PRIVILEGES: Final = frozenset({"ACL", "DEFAULT ACL"})
JOINING: Final = frozenset({"INDEX ATTACH", "SEQUENCE OWNED BY", "TABLE ATTACH"})
"""Kinds that join two objects: each such entry is an object of its own."""

_IN_A_TABLESPACE: Final = frozenset({"CONSTRAINT", "INDEX", "MATERIALIZED VIEW", "TABLE"})
"""Kinds for which the settings before an entry count."""

Key = tuple[object, ...]
"""Identity of an object, the same in each dump of a database: its kind, and the oids of its catalog and its own."""


@dataclass
class DumpObject:
    """An object: the entry that creates it, its parts such as defaults, comments and privileges."""

    entry: DumpEntry
    parts: list[DumpEntry] = field(default_factory=list)
    comments: list[DumpEntry] = field(default_factory=list)
    privileges: list[DumpEntry] = field(default_factory=list)

    @property
    def text(self) -> tuple[tuple[str, str], ...]:
        """Return all that defines the object: two with the same one are alike."""
        return tuple(
            (each.settings if each.kind in _IN_A_TABLESPACE else "", each.sql) for each in (self.entry, *self.parts)
        )

    def add(self, entry: DumpEntry) -> None:
        kinds = ((COMMENTS, self.comments), (PRIVILEGES, self.privileges))
        next((found for kind, found in kinds if entry.kind in kind), self.parts).append(entry)


class DumpObjects:
    """The objects of a dump.

    :ivar entries: of the dump, in its order.
    :ivar objects: by their identities, in the order of the dump.
    :ivar keys: identities of the objects that entries are of, by the entries' numbers.
    """

    def __init__(self, entries: Sequence[DumpEntry]) -> None:
        self.entries = entries
        self.objects: dict[Key, DumpObject] = {}
        self.keys: dict[int, Key] = {}
        self._relations: dict[tuple[str, ...], Key] = {}
        for entry in entries:
            self._add(entry)

    def _add(self, entry: DumpEntry) -> None:
        needs = [self.keys[need] for need in entry.needs if need in self.keys]
        is_part = entry.kind == "DEFAULT" or (not entry.oid and entry.kind not in JOINING)
        if is_part and needs:  # a default may need a sequence, too
            owner = next((need for need in needs if need[0] in RELATIONS), needs[0])
            self.objects[owner].add(entry)
            self.keys[entry.id] = owner
            return
        key: Key = (entry.kind, entry.class_oid, entry.oid)
        if entry.kind in JOINING:
            key = (entry.kind, *sorted(map(repr, needs)))
        elif not entry.oid:
            key = (entry.kind, entry.schema, entry.name)
        elif entry.is_relation:
            self._relations[entry.schema, entry.name] = key
        self.objects[key] = DumpObject(entry)
        self.keys[entry.id] = key

    def needs(self, key: Key) -> set[Key]:
        """Return the objects that an object needs."""
        found = self.objects[key]
        needs = {self.keys[need] for one in (found.entry, *found.parts) for need in one.needs if need in self.keys}
        if found.entry.kind == "SEQUENCE OWNED BY":  # by pg_dump's account it needs the sequence alone
            names = (chain[:2] for chain in chains(found.entry.sql))
            needs.update(self._relations[name] for name in names if name in self._relations)
        return needs - {key}

    def name_of(self, entry: DumpEntry) -> tuple[object, ...]:
        """Return the identity of an entry, the same in each dump of a database."""
        key = self.keys[entry.id]
        is_own = self.objects[key].entry is entry
        return entry.section, key, entry.kind, "" if is_own else entry.name


def places(first: DumpObjects, second: DumpObjects) -> tuple[Mapping[int, float], Mapping[int, float]]:
    """Return the places of both dumps' entries in one order, by their numbers.

    It is that of the first dump; what only the second one has follows what comes before it in that one.
    """
    found = {entry.id: float(place) for place, entry in enumerate(first.entries)}
    known = {first.name_of(entry): found[entry.id] for entry in first.entries}
    post = next((found[entry.id] for entry in first.entries if entry.section == "post-data"), float(len(found)))
    last = {"pre-data": -1.0, "post-data": post - 1e-3}
    step = 1e-4 / (1 + len(second.entries))
    added: dict[int, float] = {}
    for entry in second.entries:
        place = known.get(second.name_of(entry))
        added[entry.id] = last[entry.section] = last[entry.section] + step if place is None else place
    return found, added


def in_order(entries: Mapping[int, tuple[float, DumpEntry]]) -> Iterator[DumpEntry]:
    """Yield entries in the order of their places, each behind what it needs.

    :param entries: by their numbers, each with its place.
    """
    waiting = {number: set(entry.needs) & entries.keys() for number, (_, entry) in entries.items()}
    followers: dict[int, list[int]] = {}
    for number, needs in waiting.items():
        for each in needs:
            followers.setdefault(each, []).append(number)
    ready = [(entries[number][0], number) for number, needs in waiting.items() if not needs]
    heapq.heapify(ready)
    while ready:
        _, number = heapq.heappop(ready)
        del waiting[number]
        yield entries[number][1]
        for each in followers.get(number, ()):
            waiting[each].discard(number)
            if not waiting[each]:
                heapq.heappush(ready, (entries[each][0], each))
    # What needs each other in a circle, pg_dump has in an order that can be created.
    yield from (entries[number][1] for number in sorted(waiting, key=lambda each: entries[each][0]))
