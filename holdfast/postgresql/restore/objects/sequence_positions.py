"""Values of sequences, set in the target.

What a backup recorded is never overridden by a guess. Rows tell little of a sequence: one number that was written by
hand would put it at its end, or beyond. Only where two backups contradict each other may rows add something.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from holdfast.postgresql.catalog.sequences import Reading, SequenceBetween, SequenceValue
from holdfast.postgresql.connection.sql import ident, literal, qualified
from holdfast.postgresql.restore.plan.ledger import note_result, once, read_result
from holdfast.postgresql.restore.plan.plan import NotRestored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.postgresql.connection.session import Connection

_STEP = "sequences"


@dataclass(frozen=True)
class _Definition:
    """Definition of a sequence in the target.

    :param owner: oid of the table and name of the whole-number column that it belongs to.
    """

    increment: int
    least: int
    most: int
    cycles: bool
    owner: tuple[int, str] | None

    def holds(self, reading: Reading) -> bool:
        return self.least <= reading.last_value <= self.most

    def is_ahead(self, reading: Reading, other: Reading) -> bool:
        """Return whether a reading is farther on its way than another one."""
        way = 1 if self.increment > 0 else -1
        return (way * reading.last_value, reading.is_called) > (way * other.last_value, other.is_called)


_DEFINED = """
select coalesce(pg_catalog.has_schema_privilege(n.oid, 'usage')
    and pg_catalog.has_sequence_privilege(q.seqrelid, 'update'), false),
  q.seqincrement, q.seqmin, q.seqmax, q.seqcycle, a.attrelid::int8, a.attname::text
from unnest(%s::text[], %s::text[]) with ordinality s (schema, name, place)
left join pg_catalog.pg_namespace n on n.nspname = s.schema
left join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = s.name
left join pg_catalog.pg_sequence q on q.seqrelid = c.oid
left join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_class'::regclass and d.objid = q.seqrelid
  and d.refclassid = 'pg_catalog.pg_class'::regclass and d.deptype in ('a', 'i')
left join pg_catalog.pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
  and a.atttypid in ('pg_catalog.int2'::regtype, 'pg_catalog.int4'::regtype, 'pg_catalog.int8'::regtype)
order by s.place
"""

# Rows of foreign tables are not asked for: nothing outside of the target is.
_WITH_ROWS = """
with recursive below (relation) as (
  select %s::oid union select i.inhrelid from below join pg_catalog.pg_inherits i on i.inhparent = relation
)
select relation::regclass::text from below join pg_catalog.pg_class c on c.oid = relation where c.relkind = 'r'
"""

_SET = """
select pg_catalog.setval(s.name::regclass, s.value, s.is_called)
from unnest(%s::text[], %s::int8[], %s::bool[]) s (name, value, is_called)
"""


def find_places(
    session: Connection, values: Sequence[SequenceValue], rows: Connection | None = None
) -> tuple[NotRestored, ...]:
    """Find the value of each sequence, once, while all rows may be read; return those of uncertain value.

    What a backup recorded at its end stands. Between two, the later record does, unless it lies behind the earlier one:
    the sequence was set back at an unknown time, and stands at the farther of both, or at the farthest number of its
    column within its bounds. So it does where the later one has no such sequence, or one of other bounds. One that
    cycles goes back by itself.

    :param rows: reads them, where the session must not: a query of a table plans code of the source.
    """
    with once(session, _STEP) as is_new:
        if is_new:
            put, unknown = _places(session, values, rows or session)
            note_result(session, _STEP, json.dumps([put, [each.describe() for each in unknown]]))
        return tuple(map(NotRestored.from_dict, json.loads(read_result(session, _STEP))[1]))


def set_sequences(session: Connection) -> tuple[NotRestored, ...]:
    """Set the values found by `find_places`; return the sequences of uncertain value."""
    put, unknown = json.loads(read_result(session, _STEP))
    session.execute(_SET, tuple(list(each) for each in zip(*put, strict=True)) if put else ([], [], []))
    return tuple(map(NotRestored.from_dict, unknown))


def _places(
    session: Connection, values: Sequence[SequenceValue], rows_by: Connection
) -> tuple[list[tuple[str, int, bool]], list[NotRestored]]:
    names = [qualified(value.sequence_schema, value.name) for value in values]
    put: list[tuple[str, int, bool]] = []
    unknown = []
    parts = [value.sequence_schema for value in values], [value.name for value in values]
    rows = session.execute(_DEFINED, parts).fetchall()
    for name, value, (may, increment, least, most, cycles, table, column) in zip(names, values, rows, strict=True):
        if increment is None and not value.extension:  # it was left out, and is named
            continue
        if value.extension and not may:  # it is not ours to create it, or to grant the right
            unknown.append(_named(name, value, f"extension {value.extension} has none here that this role may set"))
            continue
        definition = _Definition(increment, least, most, cycles, (table, column) if table is not None else None)
        why = _why_unknown(definition, value)
        reading = _farthest(session, name, definition, value, rows_by) if why else value
        put.append((name, reading.last_value, reading.is_called))
        if why:
            unknown.append(
                _named(name, value, f"{why}. It stands at {reading.last_value}", may_be_set=definition.holds(value))
            )
    return put, unknown


def _why_unknown(definition: _Definition, value: SequenceValue) -> str:
    """Return why the record is not where the sequence stood; "" where it is."""
    between = value if isinstance(value, SequenceBetween) else None
    if between and between.is_past:
        return "no later backup has it, so that nobody knows how far it went since the one before"
    if not definition.holds(value):
        return (
            f"a backup found it at {value.last_value}, which is outside of its bounds here "
            f"({definition.least} to {definition.most}): it was altered meanwhile"
        )
    earlier = between.earlier if between else None
    if earlier is not None and not definition.cycles and definition.is_ahead(earlier, value):
        return (
            f"it was set back between two backups, from {earlier.last_value} or later to {value.last_value} or before, "
            "and nobody knows when"
        )
    return ""


def _farthest(
    session: Connection, name: str, definition: _Definition, value: SequenceValue, rows_by: Connection
) -> Reading:
    """Return the farthest known value within a sequence's bounds, or else that at its creation."""
    known: list[Reading | None] = [value, value.earlier if isinstance(value, SequenceBetween) else None]
    if not definition.cycles:
        known += _of_rows(rows_by, definition)
    fit = [each for each in known if each is not None and definition.holds(each)]
    if not fit:
        created = session.execute(f"select last_value, is_called from {name}".encode()).fetchone()
        if created is not None:
            fit = [Reading(last_value=created[0], is_called=created[1])]
    farthest = fit[0]
    for each in fit[1:]:
        farthest = each if definition.is_ahead(each, farthest) else farthest
    return farthest


def _of_rows(session: Connection, definition: _Definition) -> Iterator[Reading]:
    """Yield the farthest numbers of a sequence's column that leave it another one."""
    if definition.owner is None:
        return
    table, column = definition.owner
    found, within = ("max", "<=") if definition.increment > 0 else ("min", ">=")
    last = (definition.most if definition.increment > 0 else definition.least) - definition.increment
    quoted = ident(column)
    for (relation,) in session.execute(_WITH_ROWS, (table,)).fetchall():
        query = f"select pg_catalog.{found}({quoted}) from only {relation} where {quoted} {within} {last}"
        try:
            with session.transaction():
                row = session.execute(query.encode()).fetchone()
        except psycopg.errors.InsufficientPrivilege:  # then the backups alone have to do
            return
        if row is not None and row[0] is not None:
            yield Reading(last_value=row[0], is_called=True)


def _named(name: str, value: SequenceValue, reason: str, *, may_be_set: bool = True) -> NotRestored:
    statement = ""
    if may_be_set:
        called = "true" if value.is_called else "false"
        statement = f"select pg_catalog.setval({literal(name)}, {value.last_value}, {called});"
    return NotRestored(f"where sequence {value.sequence_schema}.{value.name} stood", reason, statement)
