"""Names of objects in the target: by maps, or free ones for a table's own objects."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from holdfast.postgresql.dump.sql_tokens import solid, tokens
from holdfast.postgresql.restore.plan.name_maps import Name, NameMaps, Names, free_name, multiranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.postgresql.dump.dump_entries import DumpEntry
    from holdfast.postgresql.restore.plan.selection import Selection
    from holdfast.postgresql.restore.plan.target_state import Target

_INDEXED = frozenset({"PRIMARY", "UNIQUE", "EXCLUDE"})
_NOT_IN_SCHEMAS = frozenset({"ACL", "COMMENT", "SECURITY LABEL", "DEFAULT ACL", "SCHEMA"})


def name_objects(
    selection: Selection, created: Sequence[DumpEntry], maps: NameMaps
) -> tuple[Names, list[tuple[str, str]]]:
    """Return all new names, and for people the changed ones of tables' own objects.

    Indexes, sequences and statistics follow their table's schema. Where the table gets another name, a name that begins
    with the old one begins with the new one; a name that is taken gets a number.
    """
    objects = _mapped(selection, maps)
    statistics: dict[Name, Name] = {}
    indexes: defaultdict[Name, dict[str, str]] = defaultdict(dict)
    renamed: list[tuple[str, str]] = []
    taken = _Taken(selection.target)
    for entry in created:
        if entry.is_relation or (entry.kind == "SEQUENCE" and selection.owner(entry) is None):
            taken.take("TABLE", objects.get((entry.schema, entry.name), (entry.schema, entry.name)))
    for entry in created:
        owner = selection.owner(entry)
        name = _own_name(entry)
        if owner is None or not owner.is_relation or not name:
            continue
        table = (owner.schema, owner.name)
        old = (entry.schema, name)
        new = taken.find("STATISTICS" if entry.kind == "STATISTICS" else "TABLE", _follow(old, table, objects))
        if entry.kind == "STATISTICS":
            statistics[old] = new
        else:
            objects[old] = new
        if entry.kind in ("INDEX", "CONSTRAINT"):
            indexes[table][name] = new[1]
        if new[1] != name:
            renamed.append((f"{entry.kind.lower()} {'.'.join(old)}", ".".join(new)))
    changed = {old: new for old, new in objects.items() if old != new}
    return Names(maps.schemas, changed, statistics, indexes), renamed


def _mapped(selection: Selection, maps: NameMaps) -> dict[Name, Name]:
    objects: dict[Name, Name] = {}
    for entry in selection.entries:
        if not entry.schema or entry.kind in _NOT_IN_SCHEMAS:
            continue
        bare = (entry.schema, entry.bare_name)
        if selection.is_table(entry):
            objects[bare] = maps.of_table(*bare)
        elif entry.schema in maps.schemas:
            objects.setdefault(bare, maps.of(*bare))
            if entry.kind == "TYPE":
                objects.update({name: maps.of(*name) for name in multiranges(entry)})
    return objects


def _own_name(entry: DumpEntry) -> str:
    """Return the name that an entry takes among tables or statistics of its schema, or ""."""
    if entry.kind in ("INDEX", "SEQUENCE", "STATISTICS"):
        return entry.name
    if entry.kind != "CONSTRAINT":
        return ""
    found = solid(tokens(entry.sql))
    for place, token in enumerate(found[:-2]):
        if (token.word, found[place - 1].word) == ("CONSTRAINT", "ADD") and found[place + 2].word in _INDEXED:
            return found[place + 1].identifier
    return ""


def _follow(old: Name, table: Name, objects: dict[Name, Name]) -> Name:
    """Return the name that an object of a table gets, unless it is taken."""
    schema, name = old
    new_schema, new_table = objects.get(table, table)
    if new_table != table[1] and name.startswith(f"{table[1]}_"):
        name = new_table + name.removeprefix(table[1])
    return new_schema if schema == table[0] else objects.get(old, old)[0], name


class _Taken:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._names: dict[tuple[str, str], set[str]] = {}

    def _of(self, kind: str, schema: str) -> set[str]:
        return self._names.setdefault((kind, schema), set(self._target.names(kind, schema)))

    def take(self, kind: str, name: Name) -> None:
        self._of(kind, name[0]).add(name[1])

    def find(self, kind: str, wanted: Name) -> Name:
        """Return a free name and take it."""
        found = free_name(wanted[1], self._of(kind, wanted[0]))
        self.take(kind, (wanted[0], found))
        return wanted[0], found
