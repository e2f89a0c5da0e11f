"""Column numbers of the rows in a stream of changes.

A Relation message names its columns, without their numbers.

The numbers are what all that can have happened between two catalogs gives them, that of before the changes and that of
after them. Of a column that may be one or another of the table's, nobody knows where its values belong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from holdfast.common.field_ids import LSN, OP, SEQ, UNCHANGED, numbered, with_extra
from holdfast.postgresql.catalog.column_numbers import candidates, slots
from holdfast.postgresql.catalog.columns import Column
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import qualified
from holdfast.postgresql.logical.pgoutput import ProtocolError
from holdfast.postgresql.values.stored_columns import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.logical.pgoutput import RelationColumn, RelationMessage, TypeName

_CHANGE_FIELDS: Final = (
    numbered("__lsn", pa.int64(), LSN, nullable=False),
    numbered("__seq", pa.int64(), SEQ, nullable=False),
    numbered("__op", pa.string(), OP, nullable=False),
    numbered("__unchanged", pa.list_(pa.int32()), UNCHANGED),
)

_FULL: Final = "f"

_TIMES: Final = frozenset({("pg_catalog", "timestamp"), ("pg_catalog", "timestamptz")})
"""Types that become each other without a rewrite in the time zone UTC."""


def change_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the Parquet schema of changes of a table with these columns.

    Only the field ids are fixed.
    """
    return with_extra(schema_of(columns), *_CHANGE_FIELDS)


@dataclass(frozen=True)
class ChangeForm:
    """Relation schema of a table's changes between two changes of its definition.

    :param columns: as they stand in the rows; generated ones are not among them. A number below zero is that of a
        column that neither catalog tells: it means nothing outside of its file. Of a table that came and went between
        both, columns are numbered as they were announced.
    :param key: numbers of the columns that tell rows apart; empty where only all of them together do.
    :param identity: pg_class.relreplident.
    :param uncertain: a column below zero may be one that the table has now, or the key was another one, so that the
        table needs a new snapshot.
    """

    oid: int
    table_schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[int, ...]
    identity: str
    uncertain: bool = False

    @property
    def label(self) -> str:
        """Return `schema.name`, for people."""
        return f"{self.table_schema}.{self.name}"

    @property
    def keeps_old_rows(self) -> bool:
        """Return whether the log holds the whole old row of every change."""
        return self.identity == _FULL

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the Parquet schema of the table's changes."""
        return change_schema(self.columns)

    @cached_property
    def key_places(self) -> tuple[int, ...]:
        """Return the positions of the key's columns among all."""
        places = {column.number: place for place, column in enumerate(self.columns)}
        return tuple(places[number] for number in self.key)


class TypeFacts(NamedTuple):
    """Facts about a type, as in `Column`."""

    type: str
    base: str
    base_schema: str
    kind: str
    is_array: bool
    output: str
    precision: int | None
    scale: int | None


_TYPES = """
with recursive chain as (
    select a.oid, a.typmod, a.oid as typid, a.typmod as inner_typmod
    from unnest(%(oids)s::pg_catalog.oid[], %(typmods)s::pg_catalog.int4[]) as a(oid, typmod)
    union all
    select c.oid, c.typmod, t.typbasetype, case when c.inner_typmod = -1 then t.typtypmod else c.inner_typmod end
    from chain c join pg_catalog.pg_type t on t.oid = c.typid
    where t.typtype = 'd'
)
select c.oid::pg_catalog.int8, c.typmod, pg_catalog.format_type(c.oid, c.typmod), t.typname::pg_catalog.text,
    n.nspname::pg_catalog.text, t.typtype::pg_catalog.text, t.typcategory = 'A',
    pg_catalog.quote_ident(pn.nspname) || '.' || pg_catalog.quote_ident(p.proname),
    case when m.sized then ((c.inner_typmod - 4) >> 16) & 65535 end,
    case when m.sized then (((c.inner_typmod - 4) & 2047) # 1024) - 1024 end
from chain c
join pg_catalog.pg_type t on t.oid = c.typid and t.typtype <> 'd'
join pg_catalog.pg_namespace n on n.oid = t.typnamespace
join pg_catalog.pg_proc p on p.oid = t.typoutput
join pg_catalog.pg_namespace pn on pn.oid = p.pronamespace
cross join lateral (select t.oid = 'pg_catalog.numeric'::pg_catalog.regtype and c.inner_typmod <> -1) as m(sized)
"""


# Whoever makes a cast WITHOUT FUNCTION says that values of both types are stored in the same way.
_ALIKE = """
select sn.nspname::pg_catalog.text, s.typname::pg_catalog.text, tn.nspname::pg_catalog.text, t.typname::pg_catalog.text
from pg_catalog.pg_cast c
join pg_catalog.pg_type s on s.oid = c.castsource join pg_catalog.pg_namespace sn on sn.oid = s.typnamespace
join pg_catalog.pg_type t on t.oid = c.casttarget join pg_catalog.pg_namespace tn on tn.oid = t.typnamespace
where c.castmethod = 'b'
"""

_Name = tuple[str, str]


class Types:
    """Facts about types, read from the server when needed, each once.

    :param address: where a session of its own is opened.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._known: dict[tuple[int, int], TypeFacts | None] = {}
        self._alike: dict[_Name, set[_Name]] | None = None

    def of(self, columns: Iterable[RelationColumn], named: Mapping[int, TypeName]) -> list[TypeFacts]:
        """Return the facts of the columns' types.

        :param named: what the stream called types; of one that is gone nothing else is known.
        :raises ProtocolError: a type is gone and was not named.
        """
        wanted = [(column.type_oid, column.typmod) for column in columns]
        self._ask({each for each in wanted if each not in self._known})
        return [self._known[each] or _gone(named.get(each[0])) for each in wanted]

    def may_have_been(self, facts: TypeFacts, column: Column) -> bool:
        """Return whether a column may once have had a type, without a table rewrite since.

        Types that are not PostgreSQL's own may have had other names.
        """
        one, other = (facts.base_schema, facts.base), (column.base_schema, column.base)
        if one == other or not facts.output or {one, other} == _TIMES:
            return True
        if "pg_catalog" not in (one[0], other[0]):
            return True
        return other in self._stored_alike().get(one, ())

    def _stored_alike(self) -> Mapping[_Name, set[_Name]]:
        if self._alike is None:
            self._alike = {}
            with connect(self._address) as session:
                for *one, other_schema, other in session.execute(_ALIKE.encode()):
                    _join(self._alike, (one[0], one[1]), (other_schema, other))
        return self._alike

    def _ask(self, wanted: set[tuple[int, int]]) -> None:
        if not wanted:
            return
        self._known.update(dict.fromkeys(wanted))
        values = {"oids": [oid for oid, _ in wanted], "typmods": [typmod for _, typmod in wanted]}
        with connect(self._address) as session:
            for oid, typmod, *facts in session.execute(_TYPES.encode(), values):
                self._known[oid, typmod] = TypeFacts(*facts)


def _join(groups: dict[_Name, set[_Name]], one: _Name, other: _Name) -> None:
    """Note that two types, and all like them, are alike."""
    joined = groups.get(one, {one}) | groups.get(other, {other})
    groups.update(dict.fromkeys(joined, joined))


def _gone(name: TypeName | None) -> TypeFacts:
    if name is None:
        raise ProtocolError("columns of a type that is gone and has no name")
    return TypeFacts(qualified(*name), name.name, name.type_schema, "b", False, "", None, None)


class Forms:
    """Finder of the schema of each announced relation.

    :param before, after: the catalog as it was recorded before the changes, and as it is now; None: there is none.
    """

    def __init__(self, types: Types, before: Catalog | None, after: Catalog | None) -> None:
        self._types = types
        self._is_whole = before is not None and after is not None
        self._before = _by_oid(before)
        self._after = _by_oid(after)
        recorded = before.enum_oids if before else {}
        # What is gone by now is called in the stream what it was recorded as.
        self._enums = recorded, {**recorded, **(after.enum_oids if after else {})}

    def of(self, relation: RelationMessage, named: Mapping[int, TypeName]) -> ChangeForm:
        """Return the form of a relation as it was announced."""
        facts = self._types.of(relation.columns, named)
        before, after = self._before.get(relation.oid), self._after.get(relation.oid)
        catalogs = _TwoCatalogs(before, after)
        possible = self._numbers(facts, catalogs)
        numbers = [
            catalogs.number(each, column.name, place)
            for place, (each, column) in enumerate(zip(possible, relation.columns, strict=True))
        ]
        if self._is_whole and before is after is None:  # it came and went: only the log tells of it
            numbers = [*range(1, 1 + len(numbers))]
        columns = tuple(
            catalogs.column(number, column.name, each)
            for number, column, each in zip(numbers, relation.columns, facts, strict=True)
        )
        key = _key(relation, columns, before, after)
        is_open = any(len(each) != 1 and (not each or each & catalogs.after.keys()) for each in possible)
        return ChangeForm(
            oid=relation.oid,
            table_schema=relation.relation_schema,
            name=relation.name,
            columns=columns,
            key=key,
            identity=relation.identity,
            uncertain=(after is not None and is_open) or self._has_other_key(relation.oid, key),
        )

    def _numbers(self, facts: Sequence[TypeFacts], catalogs: _TwoCatalogs) -> list[frozenset[int]]:
        """Return the possible numbers of each column.

        For a table that is gone, each has all the recorded ones.
        """
        if catalogs.slots is None:
            return [frozenset(catalogs.before)] * len(facts)

        def may_be(place: int, number: int) -> bool:
            known = catalogs.known(number)
            return not known or any(self._types.may_have_been(facts[place], column) for column in known)

        return candidates(len(facts), catalogs.slots, may_be)

    def _has_other_key(self, oid: int, key: tuple[int, ...]) -> bool:
        """Return whether a table's key in the stream differs from the recorded one.

        The record is the later catalog's, or the earlier one's where the table is gone.
        """
        now = self._after.get(oid) or self._before.get(oid)
        return now is not None and set(key) != set(now.key_numbers)

    def shown(self, form: ChangeForm) -> Shown:
        """Return the announced name, and the names and types of the announced columns.

        They show whether a table was altered.
        """
        return form.label, tuple(_shown(column, self._enums[1]) for column in form.columns)

    def recorded(self, oid: int) -> Shown | None:
        """Return a table's recorded name, and the names and types of its recorded columns.

        They are those of the catalog before the changes; None where the table was not there.
        """
        table = self._before.get(oid)
        if table is None:
            return None
        return table.label, tuple(_shown(column, self._enums[0]) for column in _published(table))


Shown = tuple[str, tuple[tuple[str, str | int, bool], ...]]
"""Name of a table, with names and types of its columns, of an enum its oid: renaming a type alters no table."""


def _shown(column: Column, enums: Mapping[str, int]) -> tuple[str, str | int, bool]:
    return column.name, enums.get(f"{column.base_schema}.{column.base}", column.type), column.is_array


class _TwoCatalogs:
    def __init__(self, before: Table | None, after: Table | None) -> None:
        self.before = {column.number: column for column in _published(before)}
        self.after = {column.number: column for column in _published(after)}
        self.slots = None if after is None else slots(before, after)

    def known(self, number: int) -> list[Column]:
        """Return the recorded columns of a number."""
        return [each[number] for each in (self.before, self.after) if number in each]

    def number(self, possible: frozenset[int], name: str, place: int) -> int:
        """Return the number of a column; below zero where it is unknown.

        Of one that is gone its name is enough: it is asked for where the schema of before is taken for a moment at
        which it was perhaps not any more, and that is said.
        """
        found = possible
        if len(possible) > 1 and not possible & self.after.keys():
            found = frozenset(each for each in possible & self.before.keys() if self.before[each].name == name)
        number = next(iter(found)) if len(found) == 1 else 0
        return number if self.known(number) else -1 - place

    def column(self, number: int, name: str, facts: TypeFacts) -> Column:
        """Return a column as it was announced."""
        known = self.known(number)
        same = next((each for each in known if _is_of(each, facts)), None)
        if same is not None:
            return replace(same, name=name)
        if known:
            return replace(known[0], name=name, missing=None, **facts._asdict())
        return Column(name=name, number=number, not_null=False, generated="", identity="", **facts._asdict())


def _is_of(column: Column, facts: TypeFacts) -> bool:
    same = (column.base_schema, column.base) == (facts.base_schema, facts.base)
    return column.type == facts.type or (same and not facts.output)


def _by_oid(catalog: Catalog | None) -> dict[int, Table]:
    return {} if catalog is None else {table.oid: table for table in catalog.tables}


def _published(table: Table | None) -> tuple[Column, ...]:
    return () if table is None else tuple(column for column in table.columns if not column.generated)


def _key(
    relation: RelationMessage, columns: Sequence[Column], before: Table | None, after: Table | None
) -> tuple[int, ...]:
    """Return the numbers of the columns that identify rows.

    Where the log has whole old rows, it is the primary key, if that was the same one all the time: of a table that was
    made in between nobody knows which one it had at first.
    """
    tables = [table for table in (before, after) if table is not None]
    if relation.identity == _FULL:
        agreed = before.primary if before is not None and before.has_primary_of(tables[-1]) else ()
        return agreed if set(agreed) <= {column.number for column in columns} else ()
    found = tuple(column.number for column, shown in zip(columns, relation.columns, strict=True) if shown.in_key)
    orders = [each for table in tables for each in (table.primary, table.identity)]
    return next((order for order in orders if len(order) == len(found) and set(order) == set(found)), found)
