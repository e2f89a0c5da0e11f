"""Stages of creating a dump's entries after the rows, in order, some of them in parallel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from holdfast.postgresql.dump.dump_entries import DumpEntry

_BUILT = frozenset({"INDEX", "CONSTRAINT"})
FOREIGN_KEY = "FK CONSTRAINT"


@dataclass(frozen=True)
class Stage:
    """Entries that need nothing of a later stage; those of a parallel one take time."""

    entries: tuple[DumpEntry, ...]
    is_parallel: bool


def stages(entries: Sequence[DumpEntry]) -> tuple[Stage, ...]:
    """Return the stages of post-data: indexes and keys, entries before foreign keys, these, all others.

    What is quick keeps the dump's order and is done alone: attaching an index locks two tables in an order of its own.
    What hides rows, or acts on what a restore does, is not among them: `hiding` and `acting`.
    """
    apart = {entry.id for entry in (*hiding(entries), *acting(entries))}
    waiting = [entry for entry in entries if entry.section == "post-data" and entry.id not in apart]
    built = _built(waiting)
    keys = {entry.id for entry in waiting if entry.kind == FOREIGN_KEY}
    slow = built | keys
    rest = [entry for entry in waiting if entry.id not in slow]
    order = {entry.id: place for place, entry in enumerate(waiting)}
    last_key = max((order[key] for key in keys), default=-1)
    early = {entry.id for entry in rest if order[entry.id] < last_key and not keys.intersection(entry.needs)}
    return (
        Stage(tuple(entry for entry in waiting if entry.id in built), is_parallel=True),
        Stage(tuple(entry for entry in rest if entry.id in early), is_parallel=False),
        Stage(tuple(entry for entry in waiting if entry.id in keys), is_parallel=True),
        Stage(tuple(entry for entry in rest if entry.id not in early), is_parallel=False),
    )


def hiding(entries: Sequence[DumpEntry]) -> tuple[DumpEntry, ...]:
    """Return the entries that enable row-level security, for when no row is read any more."""
    return tuple(entry for entry in entries if entry.kind == "ROW SECURITY")


def acting(entries: Sequence[DumpEntry]) -> tuple[DumpEntry, ...]:
    """Return the event triggers and the entries about them, which must see nothing of a restore."""
    triggers = {entry.id for entry in entries if entry.kind == "EVENT TRIGGER"}
    return tuple(entry for entry in entries if entry.id in triggers or triggers.intersection(entry.needs))


def keys_of(entries: Sequence[DumpEntry], tables: Collection[int]) -> frozenset[int]:
    """Return the foreign keys from and to the partition trees of tables, by number."""
    trees = _trees(entries)
    meant = {trees[entry.id] for entry in entries if entry.is_relation and entry.oid in tables}
    return frozenset(
        entry.id for entry in entries if entry.kind == FOREIGN_KEY and meant.intersection(_locked(entry, trees))
    )


def built_on(entries: Sequence[DumpEntry], tables: Collection[int]) -> frozenset[int]:
    """Return the indexes and keys of tables, with everything that needs them, by number."""
    relations = {entry.id for entry in entries if entry.is_relation and entry.oid in tables}
    found = {entry.id for entry in entries if entry.kind in _BUILT and relations.intersection(entry.needs)}
    for entry in entries:  # what is needed comes first
        if found.intersection(entry.needs):
            found.add(entry.id)
    return frozenset(found)


def as_partitions(entries: Sequence[DumpEntry], tables: Collection[int]) -> frozenset[int]:
    """Return the entries, by number, that fail where tables are no partitions any more.

    They attach its indexes to those of the partitioned table, or enable and disable what is a copy of its triggers.

    :param tables: their oids in the source; their bounds gave way.
    """
    relations = {entry.id for entry in entries if entry.is_relation and entry.oid in tables}
    own = [entry for entry in entries if relations.intersection(entry.needs)]
    indexes = {entry.id for entry in own if entry.kind in _BUILT}
    attached = {entry.id for entry in entries if entry.kind == "INDEX ATTACH" and indexes.intersection(entry.needs)}
    copies = {entry.id for entry in own if entry.kind == "TRIGGER" and entry.sql.startswith("ALTER TABLE")}
    return frozenset(attached | copies)


def _built(entries: Sequence[DumpEntry]) -> set[int]:
    """Return the indexes and constraints that need nothing but other ones, such as a late view."""
    there = {entry.id for entry in entries}
    built: set[int] = set()
    for entry in entries:
        if entry.kind in _BUILT and there.intersection(entry.needs) <= built:
            built.add(entry.id)
    return built


def after(stage: Stage, entries: Iterable[DumpEntry]) -> dict[int, set[int]]:
    """Return the predecessors of each entry of a stage, by their places in it.

    Those are what it needs and what locks a table in a way that conflicts: two sessions that lock the same tables in
    another order would deadlock. An index lets others be built on its table; a key or constraint does not.
    """
    if not stage.is_parallel:
        return {place: {place - 1} for place in range(1, len(stage.entries))}
    places = {entry.id: place for place, entry in enumerate(stage.entries)}
    trees = _trees(entries)
    last: dict[int, int] = {}
    beside: dict[int, set[int]] = {}
    found: dict[int, set[int]] = {}
    for place, entry in enumerate(stage.entries):
        before = {places[need] for need in entry.needs if need in places}
        for table in _locked(entry, trees):
            if table in last:
                before.add(last[table])
            if entry.kind == "INDEX":
                beside.setdefault(table, set()).add(place)
            else:
                before |= beside.pop(table, set())
                last[table] = place
        found[place] = before
    return found


def _locked(entry: DumpEntry, trees: Mapping[int, int]) -> set[int]:
    """Return the tables that an index or constraint locks; a foreign key locks all partitions, too."""
    if entry.kind == FOREIGN_KEY:
        return {trees.get(need, need) for need in entry.needs}
    return {need for need in entry.needs if need in trees}


def _trees(entries: Iterable[DumpEntry]) -> dict[int, int]:
    """Return a representative of each relation's partition tree, by number."""
    above: dict[int, int] = {}

    def top(each: int) -> int:
        while above[each] != each:
            each = above[each]
        return each

    for entry in entries:
        if entry.is_relation:
            above[entry.id] = entry.id
        elif entry.kind == "TABLE ATTACH":
            first, *others = (need for need in entry.needs if need in above)
            for other in others:
                above[top(other)] = top(first)
    return {each: top(each) for each in above}
