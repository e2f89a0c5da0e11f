"""Planning of a restore, before anything is changed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.common.errors import RefusedError, UsageError
from holdfast.common.words import named
from holdfast.postgresql.catalog.definitions import Definition, NamedObject
from holdfast.postgresql.catalog.own_objects import LEDGER
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.dump.dump_entries import DumpEntry
from holdfast.postgresql.dump.sql_tokens import solid, statements, text_of, tokens
from holdfast.postgresql.restore.plan.name_maps import (
    Name,
    NameMaps,
    Names,
    check_routines,
    free_name,
    mentions,
    multiranges,
)
from holdfast.postgresql.restore.plan.plan import NotRestored, PlannedTable, RestorePlan
from holdfast.postgresql.restore.plan.selection import ATTACHED, Selection

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from holdfast.postgresql.catalog.catalog import Catalog, NamedRelation
    from holdfast.postgresql.catalog.sequences import SequenceValue
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.restore.plan.target_state import Target


_INDEXED = frozenset({"PRIMARY", "UNIQUE", "EXCLUDE"})
_NOT_IN_SCHEMAS = frozenset({"ACL", "COMMENT", "SECURITY LABEL", "DEFAULT ACL", "SCHEMA"})

_LEDGER_LEFT = NotRestored(f"schema {LEDGER}", "a restore that had not come to its end had left it in the source")


def make_plan(
    catalog: Catalog,
    entries: Sequence[DumpEntry],
    target: Target,
    *,
    globs: Sequence[str] = (),
    exclude: Sequence[str] = (),
    maps: NameMaps | None = None,
    stored: Mapping[int, tuple[int, int, int]],
) -> RestorePlan:
    """Plan a restore of the tables that match `globs` (none: of everything), renamed by `maps`.

    :param exclude: globs of tables that `globs` do not mean.
    :param stored: rows, bytes and changes in the archive, by the table's oid.
    :raises RefusedError: it cannot work in this target; says what to do.
    """
    maps = maps or NameMaps()
    if catalog.holds_ledger:
        plan = make_plan(
            catalog.without_ledger(), entries, target, globs=globs, exclude=exclude, maps=maps, stored=stored
        )
        return plan if globs else replace(plan, not_restored=(*plan.not_restored, _LEDGER_LEFT))
    if not globs and not maps:
        tables = [*catalog.tables, *([catalog.large_objects] if catalog.large_objects else [])]
        return RestorePlan(
            tables=tuple(PlannedTable(table, table, *stored.get(table.oid, (0, 0, 0))) for table in tables),
            entries=tuple(_without_schema(entry, target) for entry in entries),
            sequences=tuple(catalog.sequences),
            materialized_views=tuple(catalog.materialized_views),
            roles=tuple(catalog.roles),
            beside=False,
            large_objects=catalog.large_object_groups,
            configuration=catalog.configuration,
            definitions=_definitions(catalog, entries, Names()),
        )
    check_routines(entries, maps)
    maps = maps.with_partitions(catalog.tables)
    chosen = _choose(catalog, globs, exclude if globs else ())
    selection = Selection(entries, catalog, target, maps, chosen, whole=not globs)
    selection.run()
    created = [entry for entry in entries if entry.id in selection.created]
    oids = {entry.oid for entry in created if selection.is_table(entry)}
    tables = [table for table in catalog.tables if table.oid in oids]
    _check(tables, created, maps, target, stored, chosen=bool(globs))
    names, renamed = name_objects(selection, created, maps)
    created = _without_unused_schemas(selection, created, names, whole=not globs)
    extensions = {entry.name for entry in created if entry.kind == "EXTENSION"}
    final = [replace(entry, sql=names.rewrite(entry, _table_of(selection, entry))) for entry in created]
    return RestorePlan(
        tables=tuple(_planned(table, names, stored) for table in tables),
        entries=(*_missing_schemas(created, final, names, target), *final),
        borrowed=frozenset(entry.id for entry, _ in selection.references()),
        sequences=tuple(_sequences(catalog, created, names, extensions)),
        materialized_views=tuple(_views(catalog, created, names)),
        roles=_roles(catalog, final),
        renamed=tuple(renamed),
        skipped_existing=tuple(sorted(entry.label for entry in selection.existing.values() if _is_worth_naming(entry))),
        not_restored=(*_not_restored(selection, names), *_large_objects(catalog), *_kept(catalog, selection)),
        configuration=tuple(each for each in catalog.configuration if each.extension in extensions),
        definitions=_definitions(catalog, created, names),
        touches=tuple(_touches(selection, names)),
        unchanged=tuple(entry.label for entry in created if maps and mentions(entry, maps, names)),
    )


def _choose(catalog: Catalog, globs: Sequence[str], exclude: Sequence[str]) -> Collection[int]:
    chosen = catalog.tree_of(catalog.matching(globs))
    left_out = catalog.tree_of(catalog.matching(exclude, "--exclude")) if exclude else frozenset()
    if chosen and chosen <= left_out:
        raise UsageError(f"--exclude {' '.join(exclude)} leaves no table of --tables {' '.join(globs)}")
    return chosen - left_out


def _check(
    tables: Sequence[Table],
    created: Sequence[DumpEntry],
    maps: NameMaps,
    target: Target,
    stored: Mapping[int, tuple[int, int, int]],
    *,
    chosen: bool,
) -> None:
    _check_maps(tables, created, maps)
    if chosen and (lacking := [table.label for table in tables if table.has_rows and table.oid not in stored]):
        raise RefusedError(
            f"there are no rows of {named(lacking, 5)} for this moment, or none that fit what it is then: take another "
            "one ('holdfast points' lists them, and when a table was not followed), or choose other tables"
        )
    places: dict[tuple[str, str], str] = {}
    for table in tables:
        place = maps.of_table(table.table_schema, table.name)
        if place in places:
            raise RefusedError(
                f"{places[place]} and {table.label} would both become {'.'.join(place)}: map one elsewhere"
            )
        places[place] = table.label
    if there := [place for place in places if target.has("TABLE", *place)]:
        example = f"{places[there[0]]}={'.'.join(there[0])}_restored"
        raise RefusedError(
            f"the target has {named(['.'.join(place) for place in there], 5)} already: restore under another name "
            f"(--map {example}), or rename what is there"
        )
    _check_extensions(created, maps, target)


def _check_maps(tables: Sequence[Table], created: Sequence[DumpEntry], maps: NameMaps) -> None:
    schemas = {entry.schema for entry in created} | {entry.name for entry in created if entry.kind == "SCHEMA"}
    if unknown := [schema for schema in maps.schemas if schema not in schemas]:
        raise UsageError(f"--map {unknown[0]}=…: nothing that is restored is in a schema {unknown[0]}")
    known = {(table.table_schema, table.name) for table in tables}
    if lost := [name for name in maps.tables if name not in known]:
        raise UsageError(f"--map {'.'.join(lost[0])}=…: that table is not among those that are restored")


def _check_extensions(created: Sequence[DumpEntry], maps: NameMaps, target: Target) -> None:
    schemas = {entry.id: entry.name for entry in created if entry.kind == "SCHEMA"}
    for entry in created:
        for schema in (schemas[need] for need in entry.needs if entry.kind == "EXTENSION" and need in schemas):
            if schema in maps.schemas and not target.has("SCHEMA", "", schema):
                raise RefusedError(
                    f"extension {entry.name} stays in schema {schema}, which --map moves: create both in the target "
                    "first"
                )


def _is_worth_naming(entry: DumpEntry) -> bool:
    """Return whether an existing object is named on its own, not with its table or schema."""
    return entry.kind == "SEQUENCE" or entry.kind not in ATTACHED | {"SCHEMA"}


def _table_of(selection: Selection, entry: DumpEntry) -> tuple[str, str] | None:
    """Return the old name of the table that an entry belongs to, also through other entries."""
    owner = entry
    while (above := selection.owner(owner)) is not None:
        owner = above
    return (owner.schema, owner.name) if owner.is_relation else None


def _without_unused_schemas(
    selection: Selection, created: Sequence[DumpEntry], names: Names, *, whole: bool
) -> list[DumpEntry]:
    """Return the created entries without schemas whose only tables go to others."""
    used = {_place(entry, names)[0] for entry in created}
    needed = {need for entry in created if entry.kind == "EXTENSION" for need in entry.needs}
    unused = {
        entry.id
        for entry in created
        if entry.kind == "SCHEMA"
        and not whole
        and names.schemas.get(entry.name, entry.name) not in used
        and entry.id not in needed
    }
    owners = {entry.id: owner.id for entry in created if (owner := selection.owner(entry)) is not None}
    return [entry for entry in created if entry.id not in unused and owners.get(entry.id) not in unused]


def _place(entry: DumpEntry, names: Names) -> tuple[str, str]:
    return names.of((entry.schema, entry.bare_name))


def _missing_schemas(
    created: Sequence[DumpEntry], final: Sequence[DumpEntry], names: Names, target: Target
) -> Iterator[DumpEntry]:
    made = {
        names.schemas.get(entry.name, entry.name)
        for entry in final
        if entry.kind == "SCHEMA" and entry.sql.startswith("CREATE SCHEMA")
    }
    wanted = {_place(entry, names)[0] for entry in created if entry.schema}
    for number, schema in enumerate(sorted(wanted - made - set(target.names("SCHEMA", "")))):
        sql = f"CREATE SCHEMA {ident(schema)};"
        yield DumpEntry(-1 - number, "pre-data", "SCHEMA", 0, 0, "", schema, (), sql)


def _planned(table: Table, names: Names, stored: Mapping[int, tuple[int, int, int]]) -> PlannedTable:
    schema, name = names.of((table.table_schema, table.name))
    columns = table.columns
    if names.objects:
        columns = tuple(
            replace(
                column,
                base_schema=names.of_type((column.base_schema, column.base))[0],
                base=names.of_type((column.base_schema, column.base))[1],
                output=names.rewrite_text(column.output),
            )
            for column in columns
        )
    renamed = table.model_copy(update={"table_schema": schema, "name": name, "columns": columns})
    return PlannedTable(table, renamed, *stored.get(table.oid, (0, 0, 0)))


def _kept(catalog: Catalog, selection: Selection) -> Iterator[NotRestored]:
    there = {entry.name for entry in selection.existing.values() if entry.kind == "EXTENSION"}
    for each in catalog.configuration:
        if each.extension in there and each.rows:
            yield NotRestored(each.label, f"the target has extension {each.extension} already, with rows of its own")


def _sequences(
    catalog: Catalog, created: Iterable[DumpEntry], names: Names, extensions: Collection[str]
) -> Iterator[SequenceValue]:
    made = {(entry.schema, entry.name) for entry in created if entry.kind == "SEQUENCE"}
    for value in catalog.sequences:
        if value.extension:
            if value.extension in extensions:
                yield value
        elif (value.sequence_schema, value.name) in made:
            schema, name = names.of((value.sequence_schema, value.name))
            yield value.model_copy(update={"sequence_schema": schema, "name": name})


def _views(catalog: Catalog, created: Iterable[DumpEntry], names: Names) -> Iterator[NamedRelation]:
    made = {(entry.schema, entry.name) for entry in created if entry.kind == "MATERIALIZED VIEW"}
    for view in catalog.materialized_views:
        if (view.relation_schema, view.name) in made:
            schema, name = names.of((view.relation_schema, view.name))
            yield view.model_copy(update={"relation_schema": schema, "name": name})


def _without_schema(entry: DumpEntry, target: Target) -> DumpEntry:
    """Return an entry that makes no schema which the target has: it was made there for an extension."""
    if entry.kind != "SCHEMA" or not target.has("SCHEMA", "", entry.name):
        return entry
    made = (statement for statement in statements(entry.sql) if statement[0].word == "CREATE")
    return replace(entry, sql=entry.sql.replace(text_of(next(made, ())), "", 1).strip())


def _definitions(catalog: Catalog, created: Sequence[DumpEntry], names: Names) -> Mapping[int, Sequence[Definition]]:
    """Return the definitions that ask operators, as they will be called, by the entry that creates each."""
    entries = {(entry.class_oid, entry.oid): entry.id for entry in created}
    found: dict[int, list[Definition]] = {}
    for definition in catalog.definitions:
        if (entry := next((entries[key] for key in definition.objects if key in entries), None)) is not None:
            found.setdefault(entry, []).append(_with_names(definition, names))
    return found


def _with_names(definition: Definition, names: Names) -> Definition:
    named, *uses = (_named(each, names) for each in (definition.named, *definition.uses))
    return Definition(objects=definition.objects, named=named, uses=tuple(uses))


def _named(named: NamedObject, names: Names) -> NamedObject:
    args = tuple(map(names.rewrite_text, named.args))
    if len(named.names) < 2:  # a type is one text
        return NamedObject(kind=named.kind, names=tuple(map(names.rewrite_text, named.names)), args=args)
    schema, name, *rest = named.names
    known = names.statistics if named.kind == "statistics object" else names.objects
    own = names.indexes.get((schema, name), {}) if named.kind == "table constraint" else {}
    new = (*known.get((schema, name), (schema, name)), *(own.get(each, each) for each in rest))
    return NamedObject(kind=named.kind, names=new, args=args)


def _roles(catalog: Catalog, entries: Iterable[DumpEntry]) -> tuple[str, ...]:
    """Return the recorded roles that own or may use created objects."""
    wanted = set(catalog.roles)
    named = {token.identifier for entry in entries for token in tokens(entry.sql)} if wanted else set()
    return tuple(sorted(wanted & named))


def _not_restored(selection: Selection, names: Names) -> Iterator[NotRestored]:
    for left in sorted(selection.left_out.values(), key=lambda each: each.entry.id):
        if left.entry.kind == "INDEX ATTACH":  # goes with what is said of its table
            continue
        statement = names.rewrite(left.entry, _table_of(selection, left.entry)) if left.add_later else ""
        yield NotRestored(left.entry.label, left.reason, statement)


def _large_objects(catalog: Catalog) -> Iterator[NotRestored]:
    if count := sum(group.count for group in catalog.large_object_groups):
        yield NotRestored(f"{count} large objects", "they come with everything only, under its own names")


def _touches(selection: Selection, names: Names) -> Iterator[str]:
    for key, table in selection.references():
        place = ".".join(names.of((table.schema, table.name)))
        yield f"{place}: writes to it wait while {key.label} is checked; from then on it is bound by that key"
    for child, table in selection.inherited():
        place = ".".join(names.of((table.schema, table.name)))
        yield f"{place}: it shows the rows of {child.label}, which inherits from it"


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
