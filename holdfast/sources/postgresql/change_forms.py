"""Which columns the rows in a stream of changes have: a Relation message names them, and tells no numbers.

The numbers are those of the catalog as it was recorded before the changes or after them, whichever the
message fits. A form in between is aligned with both: numbers only ever grow, and none is used twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from holdfast.fields import LSN, OP, SEQ, UNCHANGED, numbered, with_extra
from holdfast.sources.postgresql.columns import Column
from holdfast.sources.postgresql.forms import schema_of
from holdfast.sources.postgresql.pgoutput_tuples import ProtocolError
from holdfast.sources.postgresql.session import connect
from holdfast.sources.postgresql.sql import qualified

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.sources.postgresql.address import Address
    from holdfast.sources.postgresql.catalog import Catalog, Table
    from holdfast.sources.postgresql.pgoutput import Relation, RelationColumn, TypeName

_CHANGE_FIELDS: Final = (
    numbered("__lsn", pa.int64(), LSN, nullable=False),
    numbered("__seq", pa.int64(), SEQ, nullable=False),
    numbered("__op", pa.string(), OP, nullable=False),
    numbered("__unchanged", pa.list_(pa.int32()), UNCHANGED),
)

_FULL: Final = "f"
_INDEX: Final = "i"
_SAME_NAME, _SAME_COLUMN = 1, 4
"""How much it speaks for a number that a column has its name, and its type, too."""


def change_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the Parquet schema of changes of a table with these columns; only the field ids are fixed."""
    return with_extra(schema_of(columns), *_CHANGE_FIELDS)


@dataclass(frozen=True)
class ChangeForm:
    """How the changes of a table are kept between two changes of its definition.

    :param columns: as they stand in the rows; generated ones are not among them. A number below zero is that of a
        column that neither catalog tells: it means nothing outside of its file.
    :param key: numbers of the columns that tell rows apart; empty where only all of them together do.
    :param identity: pg_class.relreplident.
    :param uncertain: a column below zero may be one that the table has now, so that it needs a new snapshot.
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
        """Say whether the log holds the whole old row of every change."""
        return self.identity == _FULL

    @cached_property
    def schema(self) -> pa.Schema:
        """The Parquet schema of its changes."""
        return change_schema(self.columns)

    @cached_property
    def key_places(self) -> tuple[int, ...]:
        """Where the key's columns stand among all."""
        places = {column.number: place for place, column in enumerate(self.columns)}
        return tuple(places[number] for number in self.key)


class TypeFacts(NamedTuple):
    """What `Column` tells of a type."""

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


class Types:
    """What the server says of types, asked when it is needed, each once.

    :param address: where a session of its own is opened.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._known: dict[tuple[int, int], TypeFacts | None] = {}

    def of(self, columns: Iterable[RelationColumn], named: Mapping[int, TypeName]) -> list[TypeFacts]:
        """Return the facts of the columns' types.

        :param named: what the stream called types; of one that is gone nothing else is known.
        :raises ProtocolError: a type is gone and was not named.
        """
        wanted = [(column.type_oid, column.typmod) for column in columns]
        self._ask({each for each in wanted if each not in self._known})
        return [self._known[each] or _gone(named.get(each[0])) for each in wanted]

    def _ask(self, wanted: set[tuple[int, int]]) -> None:
        if not wanted:
            return
        self._known.update(dict.fromkeys(wanted))
        values = {"oids": [oid for oid, _ in wanted], "typmods": [typmod for _, typmod in wanted]}
        with connect(self._address) as session:
            for oid, typmod, *facts in session.execute(_TYPES.encode(), values):
                self._known[oid, typmod] = TypeFacts(*facts)


def _gone(name: TypeName | None) -> TypeFacts:
    if name is None:
        raise ProtocolError("columns of a type that is gone and has no name")
    return TypeFacts(qualified(*name), name.name, name.type_schema, "b", False, "", None, None)


class Forms:
    """Finds the form of each relation that is announced.

    :param before, after: the catalog as it was recorded before the changes, and as it is now; None: there is none.
    """

    def __init__(self, types: Types, before: Catalog | None, after: Catalog | None) -> None:
        self._types = types
        self._before = _by_oid(before)
        self._after = _by_oid(after)

    def of(self, relation: Relation, named: Mapping[int, TypeName]) -> ChangeForm:
        """Return the form of a relation as it was announced."""
        facts = self._types.of(relation.columns, named)
        before, after = self._before.get(relation.oid), self._after.get(relation.oid)
        shown = [_Shown(column.name, each) for column, each in zip(relation.columns, facts, strict=True)]
        places = _places(shown, _published(before), _published(after))
        columns = tuple(
            _column(each, place, -1 - number) for number, (each, place) in enumerate(zip(shown, places, strict=True))
        )
        found = {column.number for column in columns}
        missing = {column.number for column in _published(after)} - found
        return ChangeForm(
            oid=relation.oid,
            table_schema=relation.relation_schema,
            name=relation.name,
            columns=columns,
            key=_key(relation, columns, before, after),
            identity=relation.identity,
            uncertain=bool(missing) and any(number < 0 for number in found),
        )

    def has_other_key(self, form: ChangeForm) -> bool:
        """Say whether a table that was made since had another key than it has now."""
        now = self._after.get(form.oid)
        if now is None or form.oid in self._before or not self._before:
            return False
        return set(form.key) != set(now.identity if now.replica_identity == _INDEX else _primary(now))

    def recorded(self, oid: int) -> tuple[tuple[str, str], ...] | None:
        """Return names and types of a table's columns as they were recorded before the changes, if it was there."""
        table = self._before.get(oid)
        return None if table is None else tuple((column.name, column.type) for column in _published(table))


class _Shown(NamedTuple):
    """A column as it was announced."""

    name: str
    facts: TypeFacts

    def likeness(self, column: Column) -> int:
        if column.name != self.name:
            return 0
        same = (column.base_schema, column.base) == (self.facts.base_schema, self.facts.base)
        return _SAME_COLUMN if column.type == self.facts.type or (same and not self.facts.output) else _SAME_NAME


def _by_oid(catalog: Catalog | None) -> dict[int, Table]:
    return {} if catalog is None else {table.oid: table for table in catalog.tables}


def _published(table: Table | None) -> tuple[Column, ...]:
    return () if table is None else tuple(column for column in table.columns if not column.generated)


def _places(
    shown: Sequence[_Shown], before: Sequence[Column], after: Sequence[Column]
) -> list[tuple[Column, int] | None]:
    """Return the recorded column that each is, with how alike they are; None where that cannot be told."""
    exact = [each for each in (before, after) if _is(shown, each)]
    if exact:
        return [
            (column, _SAME_COLUMN) if all(each[place].number == column.number for each in exact) else None
            for place, column in enumerate(exact[0])
        ]
    slots: dict[int, list[Column]] = {}
    for column in (*before, *after):
        slots.setdefault(column.number, []).append(column)
    numbers = sorted(slots)
    alike = [
        [max(((each.likeness(column), column) for column in slots[number]), key=lambda pair: pair[0])
         for number in numbers]
        for each in shown
    ]  # fmt: skip
    chosen = _aligned([[score for score, _ in row] for row in alike])
    return [None if at is None else (row[at][1], row[at][0]) for row, at in zip(alike, chosen, strict=True)]


def _is(shown: Sequence[_Shown], columns: Sequence[Column]) -> bool:
    return len(shown) == len(columns) and all(
        each.likeness(column) == _SAME_COLUMN for each, column in zip(shown, columns, strict=True)
    )


def _aligned(scores: Sequence[Sequence[int]]) -> list[int | None]:
    """Return the slot of each row in all of the best alignments that cross nowhere; None where they differ."""
    rows, slots = len(scores), len(scores[0]) if scores else 0
    ahead = [[0] * (slots + 1) for _ in range(rows + 1)]
    behind = [[0] * (slots + 1) for _ in range(rows + 1)]
    for row in range(rows):
        for slot in range(slots):
            matched = ahead[row][slot] + scores[row][slot] if scores[row][slot] else 0
            ahead[row + 1][slot + 1] = max(matched, ahead[row][slot + 1], ahead[row + 1][slot])
    for row in reversed(range(rows)):
        for slot in reversed(range(slots)):
            matched = behind[row + 1][slot + 1] + scores[row][slot] if scores[row][slot] else 0
            behind[row][slot] = max(matched, behind[row + 1][slot], behind[row][slot + 1])
    best = behind[0][0]
    found: list[int | None] = []
    for row in range(rows):
        possible: list[int | None] = [
            slot
            for slot in range(slots)
            if scores[row][slot] and ahead[row][slot] + scores[row][slot] + behind[row + 1][slot + 1] == best
        ]
        if any(ahead[row][slot] + behind[row + 1][slot] == best for slot in range(slots + 1)):
            possible.append(None)
        found.append(possible[0] if len(possible) == 1 else None)
    return found


def _column(shown: _Shown, place: tuple[Column, int] | None, number: int) -> Column:
    if place is None:
        return Column(
            name=shown.name, number=number, not_null=False, generated="", identity="", **shown.facts._asdict()
        )
    column, likeness = place
    return column if likeness == _SAME_COLUMN else replace(column, missing=None, **shown.facts._asdict())


def _key(relation: Relation, columns: Sequence[Column], before: Table | None, after: Table | None) -> tuple[int, ...]:
    """Return the numbers of the columns that tell rows apart.

    Where the log has whole old rows, it is the primary key: if it was one all the time, as far as is known.
    """
    primary = [_primary(table) for table in (before, after) if table is not None]
    if relation.identity == _FULL:
        agreed = primary[0] if primary and primary[0] == primary[-1] else ()
        return agreed if set(agreed) <= {column.number for column in columns} else ()
    found = tuple(column.number for column, shown in zip(columns, relation.columns, strict=True) if shown.in_key)
    return next((each for each in primary if len(each) == len(found) and set(each) == set(found)), found)


def _primary(table: Table) -> tuple[int, ...]:
    numbers: dict[str, Any] = {column.name: column.number for column in table.columns}
    return tuple(numbers[name] for name in table.key)
