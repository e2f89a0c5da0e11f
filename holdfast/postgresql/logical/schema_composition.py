"""Composition of a schema at a position between two known ones, object by object.

An object that was touched only behind the position is what the earlier schema has; one that was touched only before it
is what the later one has. Touches are claims that anybody may add to, but not take away: an object with touches on both
sides is not known.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from holdfast.common.lsn import PG_CLASS
from holdfast.postgresql.dump.dump_entries import TABLES
from holdfast.postgresql.dump.dump_objects import (
    JOINING,
    PRIVILEGES,
    DumpObject,
    Key,
    in_order,
    places,
)
from holdfast.postgresql.logical import ddl_triggers
from holdfast.postgresql.logical.ddl_triggers import (
    PG_ATTRIBUTE,
    PG_CONSTRAINT,
    PG_DESCRIPTION,
    PG_TYPE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from holdfast.common.lsn import Touches
    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.dump.dump_entries import DumpEntry
    from holdfast.postgresql.dump.dump_objects import DumpObjects


_REMADE: Final = frozenset({"CHECK CONSTRAINT", "CONSTRAINT", "FK CONSTRAINT", "INDEX", "STATISTICS"})
"""Kinds that ALTER TABLE makes again, under another oid and without a word, where it alters a column's type."""

_PARTS: Final = frozenset({0, PG_CLASS, PG_CONSTRAINT, PG_DESCRIPTION})
"""Catalogs whose objects alone tell of nothing that came and went. Of tables, their columns do."""


def compose(
    earlier: KnownSchema,
    later: KnownSchema,
    touches: Touches,
    position: int,
    nearest: Side,
    weigh: Callable[[int], Side],
) -> ComposedSchema | None:
    """Return the schema of a position; None where objects would not fit together.

    :param touches: of all commits between the two that changed definitions.
    :param position: commits before it count.
    :param nearest: what to take where it is not known.
    :param weigh: returns what to take of a table, by its oid, where that is not known.
    """
    return _Composition(earlier, later, touches, position, nearest, weigh).run()


class _Composition:
    def __init__(
        self,
        earlier: KnownSchema,
        later: KnownSchema,
        touches: Touches,
        position: int,
        nearest: Side,
        weigh: Callable[[int], Side],
    ) -> None:
        self._known: Mapping[Side, KnownSchema] = {"earlier": earlier, "later": later}
        self._touches = touches
        self._position = position
        self._nearest = nearest
        self._weigh = weigh
        self._all: dict[Key, frozenset[int]] = {}
        self._unsure: list[str] = []

    def run(self) -> ComposedSchema | None:
        """Return the schema, or None."""
        found = {key: self._side(key) for key in {**self._objects("later"), **self._objects("earlier")}}
        doubtful = [key for key, (_, is_sure) in found.items() if not is_sure]
        self._unsure += map(self._label, doubtful)
        sides = {key: side for key, (side, _) in found.items()}
        weighed = {key: self._weighed(key) for key in doubtful if _is_table(key)}
        tables = weighed | self._moved_aside(sides | weighed, weighed)
        sides |= tables
        sides |= {key: self._with_tables(key, sides[key], tables) for key in doubtful if not _is_table(key)}
        sides |= self._moved_aside(sides, doubtful)
        displaced = {key for key, side in weighed.items() if side != sides[key] == "neither"}
        chosen = self._without_unmet({key: side for key, side in sides.items() if side != "neither"}, displaced)
        types = self._types()
        if types is None or not self._fits(chosen):
            return None
        if self._has_passing():
            self._unsure.append("what was made and dropped again in between, which is in no backup")
        entries = tuple(self._ordered(chosen))
        unsure = tuple(dict.fromkeys(self._unsure))
        return ComposedSchema(
            self._catalog(chosen, types),
            entries,
            unsure,
            {_oid(key): sides[key] for key in tables},
            {_oid(key): self._name(key) for key in displaced if _is_table(key)},
        )

    def _weighed(self, key: Key) -> Side:
        """Return the side of a table of which it is not known."""
        side = self._weigh(_oid(key))
        return side if key in self._objects(side) else "neither"

    def _with_tables(self, key: Key, side: Side, tables: Mapping[Key, Side]) -> Side:
        """Return the side of another object of which it is not known: that of such tables that it needs."""
        found = {tables[each] for each in self._needs(key) if each in tables}
        if not found:
            return side
        (first, *others) = found
        return first if not others and first != "neither" and key in self._objects(first) else "neither"

    def _moved_aside(self, sides: Mapping[Key, Side], doubtful: Collection[Key]) -> dict[Key, Side]:
        """Return other sides for objects whose name another one had, as far as it is not known that they had it, too.

        Their name in the other schema may be free. Of several of which that is not known, one of the nearest stays.
        """
        holders: dict[tuple[object, ...], list[Key]] = {}
        for key, side in sides.items():
            if side != "neither" and (name := self._own_name(key, side)) is not None:
                holders.setdefault(name, []).append(key)
        found: dict[Key, Side] = {}
        for keys in [each for each in holders.values() if len(each) > 1]:
            near = [key for key in keys if key not in doubtful] or [key for key in keys if sides[key] == self._nearest]
            for key in [key for key in keys if key in doubtful and key != (near or keys)[0]]:
                other: Side = "earlier" if sides[key] == "later" else "later"
                is_free = key in self._objects(other) and self._own_name(key, other) not in holders
                found[key] = other if is_free else "neither"
                if is_free:
                    holders[self._own_name(key, other) or ()] = [key]
        return found

    def _own_name(self, key: Key, side: Side) -> tuple[object, ...] | None:
        """Return the name that no other object may have; None where there may be several of it."""
        entry = self._objects(side)[key].entry
        is_named = entry.section == "pre-data" and entry.class_oid
        return (entry.class_oid, entry.schema, entry.name) if is_named else None

    def _objects(self, side: Side) -> Mapping[Key, DumpObject]:
        return self._known[side].dump.objects

    # Choice

    def _side(self, key: Key) -> tuple[Side, bool]:
        """Return the schema whose definition is taken, and whether that is certainly right."""
        is_earlier, is_later = (key in self._objects(side) for side in self._known)
        own = self._own(key)
        if is_earlier and is_later:
            if self._differs(key):
                return self._side_of_both(key)
            if not self._is_mixed(own) or self._is_unaltered(key):
                return ("earlier" if own and self._is_ahead(own) else "later"), True
            return self._side_by_columns(key)
        return self._side_of_one(key, "earlier" if is_earlier else "later")

    def _side_of_one(self, key: Key, side: Side) -> tuple[Side, bool]:
        """Return the side of an object that only one schema has."""
        own, every = self._own(key), self._every(key)
        is_gone = self._is_past if side == "earlier" else self._is_ahead  # it was dropped by then, or made later
        is_there = self._is_ahead if side == "earlier" else self._is_past
        if key[0] in _REMADE:
            if self._was_remade(key, side):
                return ("later" if side == "later" else "neither"), True
            needs = self._known[side].dump.needs(key)
            if any(_is_table(need) and self._side(need) == ("neither", True) for need in needs):
                return "neither", True
            columns = self._of_columns(needs)
            if columns and not is_there(columns):  # it may have had another oid, of which neither schema tells
                return side if self._nearest == side else "neither", False
        if (own and is_gone(own)) or (not own and every and is_gone(every)):
            return "neither", True
        if every and is_there(every):
            return side, True
        return (side if own or self._nearest == side else "neither"), False

    def _side_of_both(self, key: Key) -> tuple[Side, bool]:
        every = self._every(key)
        if every and not self._is_mixed(every):
            return self._of(every), True
        return self._side_by_columns(key)

    def _side_by_columns(self, key: Key) -> tuple[Side, bool]:
        """Return the schema with a table's columns, where that is known; of other objects, the nearest one."""
        columns = self._touches.get((PG_ATTRIBUTE, _oid(key)), ()) if self._is_named_alike(key) else ()
        if columns and not self._is_mixed(columns):  # all else of a table may come a bit early or late
            self._unsure.append(self._label(key))
            return self._of(columns), True
        return self._nearest, False

    def _own(self, key: Key) -> Sequence[int]:
        """Return the positions at which an object itself was touched."""
        if key[0] in PRIVILEGES:
            return self._touches.get(ddl_triggers.PRIVILEGES, ())
        if key[0] in JOINING or not isinstance(key[1], int) or not isinstance(key[2], int):
            return ()
        return self._touches.get((key[1], key[2]), ())

    def _every(self, key: Key) -> frozenset[int]:
        """Return the positions at which an object, or what it needs, was touched, as far as that is another one."""
        if key not in self._all:
            seen, waiting = {key}, [key]
            while waiting:  # two dumps together may need each other in a circle
                below = {each for each in self._needs(waiting.pop()) if self._differs(each)} - seen
                seen |= below
                waiting += below
            found = frozenset(at for each in seen for at in self._own(each))
            self._all[key] = found or self._of_tables(self._needs(key))
        return self._all[key]

    def _needs(self, key: Key) -> set[Key]:
        dumps = (each.dump for each in self._known.values())
        return {each for dump in dumps if key in dump.objects for each in dump.needs(key)}

    def _of_tables(self, needs: Iterable[Key]) -> frozenset[int]:
        """Return the positions at which the columns of tables were touched, or else the tables."""
        tables = [need for need in needs if _is_table(need)]
        return self._of_columns(tables) or frozenset(at for table in tables for at in self._own(table))

    def _of_columns(self, needs: Iterable[Key]) -> frozenset[int]:
        tables = [need for need in needs if _is_table(need)]
        return frozenset(at for table in tables for at in self._touches.get((PG_ATTRIBUTE, _oid(table)), ()))

    def _was_remade(self, key: Key, side: Side) -> bool:
        """Return whether the other schema has the same object, which was made again without a word in the log."""
        other: Side = "earlier" if side == "later" else "later"
        twin = self._alone[other].get((key[0], self._objects(side)[key].text))
        return twin is not None and not self._own(key if side == "earlier" else twin)

    @cached_property
    def _alone(self) -> Mapping[Side, Mapping[tuple[object, ...], Key]]:
        """Return the objects that only one schema has, by their kinds and texts."""
        return {
            side: {
                (key[0], found.text): key
                for key, found in self._objects(side).items()
                if key not in self._objects("earlier" if side == "later" else "later")
            }
            for side in self._known
        }

    def _differs(self, key: Key) -> bool:
        one, other = (self._objects(side).get(key) for side in self._known)
        return one is None or other is None or one.text != other.text

    def _is_unaltered(self, key: Key) -> bool:
        """Return whether a table's columns and name were the same all the time."""
        one, other = (tables.get(_oid(key)) for tables in self._tables)
        same = one is not None and other is not None and one.form == other.form != ""
        return same and self._is_named_alike(key)

    def _is_named_alike(self, key: Key) -> bool:
        """Return whether an object is a table that had one name all the time."""
        one, other = (tables.get(_oid(key)) for tables in self._tables)
        return _is_table(key) and one is not None and other is not None and other.has_name_of(one)

    @cached_property
    def _tables(self) -> Sequence[Mapping[int, Table]]:
        """Return the tables of both schemas by their oids."""
        return [{table.oid: table for table in each.catalog.tables} for each in self._known.values()]

    def _of(self, positions: Iterable[int]) -> Side:
        return "later" if self._is_past(positions) else "earlier"

    def _is_past(self, positions: Iterable[int]) -> bool:
        return all(position < self._position for position in positions)

    def _is_ahead(self, positions: Iterable[int]) -> bool:
        return all(position >= self._position for position in positions)

    def _is_mixed(self, positions: Iterable[int]) -> bool:
        return not self._is_past(positions) and not self._is_ahead(positions)

    def _types(self) -> Side | None:
        """Return the schema whose types are those of the position; None where it is not known."""
        before, after = (each.catalog for each in self._known.values())
        if before.types == after.types and before.enums == after.enums:
            return "later"
        touched = [at for (catalog, _), each in self._touches.items() if catalog == PG_TYPE for at in each]
        every = touched or [at for each in self._touches.values() for at in each]
        return None if self._is_mixed(every) else self._of(every)

    # What goes together

    def _without_unmet(self, chosen: Mapping[Key, Side], displaced: Collection[Key]) -> Mapping[Key, Side]:
        """Return the chosen objects without what needs a displaced one, or follows the rows and lacks something."""
        found, gone = dict(chosen), {*displaced}
        while unmet := [key for key, side in found.items() if self._is_unmet(key, side, found, gone)]:
            gone.update(unmet)
            for key in unmet:
                del found[key]
                self._unsure.append(self._label(key))
        return found

    def _is_unmet(self, key: Key, side: Side, chosen: Mapping[Key, Side], gone: set[Key]) -> bool:
        needs = self._known[side].dump.needs(key)
        follows = self._objects(side)[key].entry.section == "post-data"
        return bool(needs & gone) or (follows and not needs <= chosen.keys())

    def _fits(self, chosen: Mapping[Key, Side]) -> bool:
        """Return whether what is created before the rows has all that it needs, as it needs it, and its own name."""
        names = [name for key, side in chosen.items() if (name := self._own_name(key, side)) is not None]
        if len(names) != len({*names}):
            return False
        for key, side in chosen.items():
            if self._objects(side)[key].entry.section != "pre-data":
                continue
            needs = self._known[side].dump.needs(key)
            if any(need not in chosen or self._is_of_other(key, need, side, chosen) for need in needs):
                return False
        return True

    def _is_of_other(self, key: Key, needed: Key, side: Side, chosen: Mapping[Key, Side]) -> bool:
        return self._differs(key) and self._differs(needed) and chosen[needed] != side

    def _has_passing(self) -> bool:
        """Return whether there were objects that neither schema has."""
        known = {key[1:] for side in self._known for key in self._objects(side)}
        return any(
            self._is_mixed(self._touches.get((PG_CLASS, oid), ()) if catalog == PG_ATTRIBUTE else positions)
            and (PG_CLASS if catalog == PG_ATTRIBUTE else catalog, oid) not in known
            for (catalog, oid), positions in self._touches.items()
            if catalog not in _PARTS
        )

    # Result

    def _ordered(self, chosen: Mapping[Key, Side]) -> Iterator[DumpEntry]:
        """Yield the entries of the chosen objects, with new numbers, in an order that allows their creation."""
        order = dict(
            zip(("later", "earlier"), places(self._known["later"].dump, self._known["earlier"].dump), strict=True)
        )
        taken = [(entry, at) for key, side in chosen.items() for entry, at in self._entries(key, side)]
        numbers = {(at, entry.id): number for number, (entry, at) in enumerate(taken, 1)}
        own = {key: numbers[side, self._objects(side)[key].entry.id] for key, side in chosen.items()}
        found: dict[int, tuple[float, DumpEntry]] = {}
        for entry, at in taken:
            number = numbers[at, entry.id]
            keys = self._known[at].dump.keys
            needs = (numbers.get((at, need)) or own.get(keys.get(need, ())) for need in entry.needs)
            needed = tuple(dict.fromkeys(need for need in needs if need and need != number))
            found[number] = order[at][entry.id], replace(entry, id=number, needs=needed)
        yield from in_order(found)

    def _entries(self, key: Key, side: Side) -> Iterator[tuple[DumpEntry, Side]]:
        """Yield an object's entries, each with the schema that it is of."""
        own = self._objects(side)[key]
        yield from ((entry, side) for entry in (own.entry, *own.parts))
        comments = self._touches.get((PG_DESCRIPTION, _oid(key)), ())
        for name, touched in (("comments", comments), ("privileges", self._touches.get(ddl_triggers.PRIVILEGES, ()))):
            at, is_sure = self._side_of_words(key, side, name, touched)
            if at != "neither":
                yield from ((entry, at) for entry in getattr(self._objects(at)[key], name))
            if not is_sure:
                self._unsure.append(f"{name} of {own.entry.label}")

    def _side_of_words(self, key: Key, side: Side, name: str, touched: Sequence[int]) -> tuple[Side, bool]:
        """Return the schema whose comments or privileges of an object are taken, and whether that is right."""
        words = {at: self._words(key, at, name) for at in self._known}
        is_mixed = self._is_mixed(touched)
        if None not in words.values():
            if words["earlier"] == words["later"]:
                if is_mixed:  # of privileges it is not even known whose
                    self._unsure.append(f"{name} that were given and taken back")
                return side, True
            if not touched:  # a change of owner changes privileges, too
                return side, self._differs(key)
            if is_mixed:
                return side, False
            right = self._of(touched)
            if not words[right]:
                return "neither", True
            names = {self._objects(at)[key].entry.full_name for at in self._known}
            return (right, True) if right == side or len(names) == 1 else (side, False)
        if not touched or self._of(touched) == side:
            return side, not is_mixed
        # What was made in between had none at first, but for what default privileges give it.
        is_given = name == "privileges" and any(
            each[0] == "DEFAULT ACL" for at in self._known for each in self._objects(at)
        )
        return ("neither", not is_given) if side == "later" and not is_mixed else (side, False)

    def _words(self, key: Key, side: Side, name: str) -> Sequence[str] | None:
        found = self._objects(side).get(key)
        return None if found is None else [entry.sql for entry in getattr(found, name)]

    def _catalog(self, chosen: Mapping[Key, Side], types: Side) -> Catalog:
        before, after = (each.catalog for each in self._known.values())
        sides = {_oid(key): side for key, side in chosen.items() if key[1] == PG_CLASS}
        known = [(side, each.catalog) for side, each in self._known.items()]
        tables = [table for side, each in known for table in each.tables if sides.get(table.oid) == side]
        sequences = [
            value
            for side, each in known
            for value in each.sequences
            if sides.get(value.oid) == side or (value.extension and side == self._nearest)
        ]
        entries = (self._objects(side)[key].entry for key, side in chosen.items())
        views = {(entry.schema, entry.name) for entry in entries if entry.kind == "MATERIALIZED VIEW"}
        refreshed = (*after.materialized_views, *before.materialized_views)
        oids = {table.oid for table in tables}
        written = self._known[types].catalog
        return self._known[self._nearest].catalog.with_fields(
            {
                "tables": tuple(sorted(tables, key=lambda table: (table.table_schema, table.name))),
                "sequences": tuple(sorted(sequences, key=lambda value: (value.sequence_schema, value.name))),
                "materialized_views": tuple(
                    dict.fromkeys(each for each in refreshed if (each.relation_schema, each.name) in views)
                ),
                "references": tuple(
                    dict.fromkeys(each for each in (*after.references, *before.references) if oids.issuperset(each))
                ),
                "roles": tuple(sorted({*before.roles, *after.roles})),
                "tablespaces": after.tablespaces and tuple({*(before.tablespaces or ()), *after.tablespaces}),
                "types": written.types,
                "enums": written.enums,
                "enum_oids": written.enum_oids,
                "label_types": written.label_types,
            }
        )

    def _name(self, key: Key) -> str:
        return next(self._objects(side)[key].entry.full_name for side in self._known if key in self._objects(side))

    def _label(self, key: Key) -> str:
        return next(self._objects(side)[key].entry.label for side in self._known if key in self._objects(side))


def _is_table(key: Key) -> bool:
    return key[0] in TABLES


def _oid(key: Key) -> int:
    return key[2] if len(key) > 2 and isinstance(key[2], int) else 0


Side = Literal["earlier", "later", "neither"]
"""The schema whose definition of an object is that of the position; `neither`: it was not there."""


@dataclass(frozen=True)
class ComposedSchema:
    """A schema that is put together of two.

    :param catalog: without the values of sequences.
    :param entries: of the dumps, in an order that allows their creation.
    :param unsure: objects that may have been otherwise, for people.
    :param doubtful: tables that may have had other columns or names, or may not have been there: by oid, whose
        definition is taken.
    :param displaced: tables among them, by oid, that are left out since another one had their name.
    """

    catalog: Catalog
    entries: tuple[DumpEntry, ...]
    unsure: tuple[str, ...]
    doubtful: Mapping[int, Side]
    displaced: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class KnownSchema:
    """The schema at the end of a backup."""

    catalog: Catalog
    dump: DumpObjects
