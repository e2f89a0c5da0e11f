"""New names of restored objects (`--map`), and pg_dump's SQL rewritten to them.

pg_dump writes SQL for an empty search_path: what is not PostgreSQL's own is written `schema.name`. So names are looked
for as tokens, and nothing else is touched: not the text of functions, not values.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from holdfast.common.errors import RefusedError, UsageError
from holdfast.postgresql.connection.sql import ident, literal, qualified
from holdfast.postgresql.dump.sql_tokens import (
    CAST,
    COMMENT,
    DOLLAR,
    NAME,
    OTHER,
    QUOTED,
    SPACE,
    STRING,
    Token,
    chain_at,
    parse_name,
    solid,
    string_value,
    tokens,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.dump.dump_entries import DumpEntry

Name = tuple[str, str]
"""Schema and name."""

MAX_BYTES = 63
"""Length of PostgreSQL's names (NAMEDATALEN - 1)."""

_SIDE = re.compile(r'((?:[^".=]|"(?:[^"]|"")+")+)(?:\.((?:[^".=]|"(?:[^"]|"")+")+))?')
_RESERVED = re.compile(r"pg_.*|information_schema|holdfast_restore")


@dataclass(frozen=True)
class NameMaps:
    """Mapped names, as given by `--map`; that of a single table wins over its schema's."""

    schemas: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[Name, Name] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.schemas or self.tables)

    def of(self, schema: str, name: str) -> Name:
        """Return the new name of an object that is no chosen table."""
        return self.schemas.get(schema, schema), name

    def of_table(self, schema: str, name: str) -> Name:
        return self.tables.get((schema, name)) or self.of(schema, name)

    def with_partitions(self, tables: Sequence[Table]) -> NameMaps:
        """Return the maps with names for the partitions of mapped tables, unless mapped themselves.

        `events_2024` of `events=events_old` becomes `events_old_2024`, in its table's new schema if they shared one.
        """
        partitions = defaultdict(list)
        for table in tables:
            for parent in table.parents if table.bound is not None else ():
                partitions[parent].append(table)
        found = dict(self.tables)
        taken = {name for _, name in found.values()}
        waiting = [table for table in tables if (table.table_schema, table.name) in found]
        while waiting:
            above = waiting.pop()
            schema, name = found[above.table_schema, above.name]
            for table in partitions[above.oid]:
                if (table.table_schema, table.name) in found:
                    continue
                rest = table.name.removeprefix(above.name)
                own = free_name(f"{name}{rest}" if rest != table.name else f"{name}_{rest}", taken)
                to = schema if table.table_schema == above.table_schema else self.of(table.table_schema, "")[0]
                found[table.table_schema, table.name] = (to, own)
                taken.add(own)
                waiting.append(table)
        return NameMaps(self.schemas, found)

    @classmethod
    def parse(cls, options: Iterable[str]) -> NameMaps:
        """Read `OLD=NEW` of schemas (`public=restored`) and tables (`public.orders=archive.orders`).

        A name is taken as it stands, capitals too; one that holds a dot or an equals sign goes in double quotes.
        """
        schemas: dict[str, str] = {}
        tables: dict[Name, Name] = {}
        for option in options:
            old, new = _sides(option)
            if (old[0] in schemas and len(old) == 1) or old in tables:
                raise UsageError(f"--map {option}: {'.'.join(old)} is mapped already")
            if len(old) == 1:
                schemas[old[0]] = new[0]
            else:
                tables[old[0], old[1]] = (new[0], new[1])
        return cls(schemas, tables)


def _sides(option: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    old = _SIDE.match(option)
    new = _SIDE.fullmatch(option, old.end() + 1) if old and option[old.end() : old.end() + 1] == "=" else None
    if old is None or new is None or (old.group(2) is None) != (new.group(2) is None):
        raise UsageError(
            f"--map {option}: say schema=schema (public=restored) or table=table with both schemas "
            "(public.orders=archive.orders)"
        )
    names = tuple(tuple(_unquoted(part) for part in found.groups() if part is not None) for found in (old, new))
    for name in names[1]:
        if len(name.encode()) > MAX_BYTES:
            raise UsageError(f"--map {option}: {name} is longer than the {MAX_BYTES} bytes that PostgreSQL keeps")
    if _RESERVED.fullmatch(names[1][0]):
        raise UsageError(f"--map {option}: {names[1][0]} is no schema to restore into")
    return names[0], names[1]


def _unquoted(part: str) -> str:
    if len(part) > 1 and part[0] == part[-1] == '"':
        return part[1:-1].replace('""', '"')
    return part


def free_name(wanted: str, taken: Container[str]) -> str:
    """Return `wanted`, with the least number behind it that makes it free."""
    number = 0
    while (found := fitted(wanted, str(number or ""))) in taken:
        number += 1
    return found


def fitted(name: str, ending: str) -> str:
    """Return a name with an ending, as long as PostgreSQL keeps."""
    room = MAX_BYTES - len(ending)
    return name.encode()[:room].decode("utf-8", "ignore") + ending


_BEFORE_INDEX = {
    *(("CREATE", "INDEX"), ("UNIQUE", "INDEX"), ("USING", "INDEX")),
    *(("ADD", "CONSTRAINT"), ("ON", "CONSTRAINT"), ("CLUSTER", "ON")),
}
"""After these an index, or the constraint that is one, stands without its schema."""

_WITH_QUERIES = frozenset({"POLICY", "RULE", "VIEW", "MATERIALIZED VIEW", "FUNCTION", "PROCEDURE"})
_BEFORE_SOURCE = frozenset({"FROM", "JOIN", "ONLY", "UPDATE"})
_OPERATOR = frozenset("+-*/<>=~!@#%^&|`?")


@dataclass(frozen=True)
class Names:
    """Old names mapped to new ones; all others stay.

    :param objects: of everything whose name stands after a schema: relations, types, functions, operators.
    :param statistics: of extended statistics, which may be called like a table.
    :param indexes: of one table's indexes and constraints, by the table's old name.
    """

    schemas: Mapping[str, str] = field(default_factory=dict)
    objects: Mapping[Name, Name] = field(default_factory=dict)
    statistics: Mapping[Name, Name] = field(default_factory=dict)
    indexes: Mapping[Name, Mapping[str, str]] = field(default_factory=dict)

    def of(self, name: Name) -> Name:
        """Return the new name of a relation, type or function."""
        return self.objects.get(name, name)

    def of_type(self, name: Name) -> Name:
        """Return the new name of a type; an array's follows its element's."""
        if name in self.objects:
            return self.objects[name]
        if name[1].startswith("_"):
            schema, element = self.of((name[0], name[1][1:]))
            return schema, fitted(f"_{element}", "")
        return name

    def rewrite(self, entry: DumpEntry, table: Name | None) -> str:
        """Return an entry's SQL with the new names.

        :param table: the old name of the table it belongs to, if there is one.
        """
        return _Rewriter(self, entry, table).run()

    def rewrite_text(self, sql: str) -> str:
        """Return an expression with the new names."""
        found = list(tokens(sql))
        out = [token.text for token in found]
        for place in range(len(found)):
            names = chain_at(found, place)
            if len(names) > 1 and (new := self.objects.get((names[0], names[1]))):
                out[place], out[place + 2] = ident(new[0]), ident(new[1])
        return "".join(out)


class _Rewriter:
    def __init__(self, names: Names, entry: DumpEntry, table: Name | None) -> None:
        self._names = names
        self._kind = entry.kind
        self._table = table
        self._indexes = names.indexes.get(table, {}) if table else {}
        self._found: Sequence[Token] = list(tokens(entry.sql))
        self._out = [token.text for token in self._found]
        self._words = ("", "")
        self._last = ""
        self._in_query = entry.kind not in ("FUNCTION", "PROCEDURE")

    def run(self) -> str:
        for place, token in enumerate(self._found):
            if token.kind in (SPACE, COMMENT):
                continue
            if token.is_identifier:
                self._identifier(place)
            elif token.kind == STRING:
                self._string(place, token)
            self._in_query = self._in_query or token.word == "ATOMIC"
            self._words = (self._words[1], token.word)
            self._last = token.text
        return "".join(self._out)

    def _identifier(self, place: int) -> None:
        names = chain_at(self._found, place)
        if len(names) > 1:
            self._chain(place, names)
        elif names and self._text(place + 1) == ".":
            self._operator(place, names[0])
        elif names:
            self._alone(place, names[0])

    def _chain(self, place: int, names: tuple[str, ...]) -> None:
        known = self._names.statistics if self._words[1] == "STATISTICS" else self._names.objects
        old = (names[0], names[1])
        if (new := known.get(old)) is not None:
            self._out[place] = ident(new[0])
            self._out[place + 2] = ident(new[1])
            if new[1] != old[1] and len(names) == 2 and self._needs_alias(place + 3):
                self._out[place + 2] += f" {ident(old[1])}"
        elif self._kind == "POLICY" and self._table and names[0] == self._table[1]:
            self._out[place] = ident(self._names.of(self._table)[1])

    def _needs_alias(self, behind: int) -> bool:
        """Return whether the query goes on to call the table by its old name alone."""
        if self._kind not in _WITH_QUERIES or not self._in_query:
            return False
        if not (self._words[1] in _BEFORE_SOURCE or self._last in (",", "(")):
            return False
        following = next((token for token in self._found[behind:] if token.kind != SPACE), Token(OTHER, ""))
        # pg_dump writes keywords in capitals, and names without quotes only where they have none.
        is_name = following.kind == QUOTED or (following.kind == NAME and following.text == following.text.lower())
        return not (is_name or following.word == "AS")

    def _operator(self, place: int, schema: str) -> None:
        signs = ""
        while self._text(place + 2 + len(signs)) in _OPERATOR:
            signs += self._text(place + 2 + len(signs))
        if signs and (new := self._names.objects.get((schema, signs))):
            self._out[place] = ident(new[0])

    def _alone(self, place: int, name: str) -> None:
        if self._words in _BEFORE_INDEX and name in self._indexes:
            self._out[place] = ident(self._indexes[name])
        elif self._words[1] == "SCHEMA" and self._kind != "EXTENSION" and name in self._names.schemas:
            self._out[place] = ident(self._names.schemas[name])

    def _string(self, place: int, token: Token) -> None:
        """Rename in constants that stand for objects, such as `nextval('public.numbers'::regclass)`."""
        if not _is_object(self._found, place):
            return
        names = parse_name(string_value(token) or "")
        new = self._names.objects.get((names[0], names[1])) if len(names) == 2 else None
        if new is not None:
            self._out[place] = literal(qualified(*new))

    def _text(self, place: int) -> str:
        return self._found[place].text if place < len(self._found) else ""


def renamed_entries(entries: Iterable[DumpEntry], renamed: Mapping[Name, Name]) -> tuple[DumpEntry, ...]:
    """Return a dump's entries with other names of tables; what belongs to them keeps its own name."""
    names, relations = Names(objects=renamed), {}
    found = []
    for entry in entries:
        if entry.is_relation:
            relations[entry.id] = (entry.schema, entry.name)
        table = next((relations[need] for need in entry.needs if need in relations), None)
        name = renamed.get((entry.schema, entry.name), ("", entry.name))[1] if entry.is_relation else entry.name
        found.append(replace(entry, name=name, sql=names.rewrite(entry, table)))
    return tuple(found)


def mentions(entry: DumpEntry, maps: NameMaps, names: Names) -> bool:
    """Return whether texts of an entry, which are never rewritten, may mention mapped names."""
    words = {*maps.schemas, *(name for schema, name in maps.tables)}
    sought = re.compile(rf"(?<![\w$])(?:{'|'.join(re.escape(word) for word in sorted(words))})(?![\w$])")
    found = list(tokens(entry.sql))
    for place, token in enumerate(found):
        if token.kind not in (STRING, DOLLAR) or _is_object(found, place):
            continue
        if entry.kind in _WITH_BODIES:
            if sought.search(token.text):
                return True
        elif parse_name(string_value(token) or "") in names.objects:
            return True
    return False


_WITH_BODIES = frozenset({"FUNCTION", "PROCEDURE", "TRIGGER"})


def _is_object(found: Sequence[Token], place: int) -> bool:
    """Return whether a constant stands for an object, as in `'public.numbers'::regclass`."""
    behind = found[place + 1 : place + 3]
    return len(behind) == 2 and behind[0].kind == CAST and behind[1].text.startswith("reg")


def multiranges(entry: DumpEntry) -> Iterable[Name]:
    """Yield the name of a range type's multirange type, which has no entry of its own."""
    found = solid(tokens(entry.sql))
    for place, token in enumerate(found):
        if token.kind == NAME and token.text == "multirange_type_name" and place + 2 < len(found):
            names = chain_at(found, place + 2)
            if len(names) == 2:
                yield names[0], names[1]


def check_routines(entries: Iterable[DumpEntry], maps: NameMaps) -> None:
    """Refuse a function with the name of a mapped table, from which nothing else tells it."""
    for entry in entries:
        bare = (entry.schema, entry.bare_name)
        if entry.kind in ("FUNCTION", "PROCEDURE", "AGGREGATE") and bare in maps.tables:
            raise RefusedError(
                f"{'.'.join(bare)} is a table and a function: map the schema ({bare[0]}=…) instead of the table"
            )
