"""Existing tables of a target that take a restore's rows.

Their indexes, conditions and triggers stay as they are. Triggers and rules do not fire: the rows of the archive have
what these made of them. Foreign keys are checked, so the tables that others refer to are filled first.
"""

from __future__ import annotations

from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import psycopg

from holdfast.common.errors import BusyError, RefusedError
from holdfast.common.words import named
from holdfast.postgresql.catalog.columns import read_columns
from holdfast.postgresql.connection.session import first_column
from holdfast.postgresql.connection.sql import literal, qualified
from holdfast.postgresql.restore.plan.ledger import LOCK_WAIT, unnoticed
from holdfast.postgresql.restore.plan.plan import NotRestored
from holdfast.postgresql.restore.rows.load import most_locked
from holdfast.postgresql.restore.rows.staging_tables import bring_back, not_taken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.postgresql.catalog.columns import Column
    from holdfast.postgresql.catalog.sequences import SequenceValue
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.session import Connection

_NAMED = 5
_ASKED_AT_ONCE = 100
"""Tables that one query asks for rows: each is locked meanwhile."""

_FOUND = """
select c.oid::int8, pg_catalog.pg_has_role(c.relowner, 'USAGE'), o.rolname::text, o.rolsuper,
  pg_catalog.row_security_active(c.oid)
from unnest(%s::text[], %s::text[]) with ordinality s (schema, name, place)
left join pg_catalog.pg_namespace n on n.nspname = s.schema
left join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = s.name and c.relkind = 'r'
left join pg_catalog.pg_roles o on o.oid = c.relowner
order by s.place
"""

_SEQUENCES_THERE = """
select n.nspname::text, c.relname::text from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.relkind = 'S'
"""

_TREES = """
with given (oid) as (select unnest(%(names)s::text[])::regclass::oid),
trees (oid) as (select g.oid from given g union select p.relid from given g, pg_catalog.pg_partition_tree(g.oid) p)
"""

# A partition's own foreign keys come with its root's; what is partitioned is filled, and referred to, as a whole.
_KEYS = f"""
{_TREES}
select distinct coalesce(pg_catalog.pg_partition_root(k.conrelid), k.conrelid)::regclass::text,
  coalesce(pg_catalog.pg_partition_root(k.confrelid), k.confrelid)::regclass::text
from pg_catalog.pg_constraint k where k.contype = 'f' and not k.condeferrable and k.conrelid in (select oid from trees)
"""

_ROOTS = """
select coalesce(pg_catalog.pg_partition_root(s.name::regclass), s.name::regclass)::regclass::text
from unnest(%s::text[]) with ordinality s (name, place) order by s.place
"""

_ACTING = f"""
{_TREES}
select t.tgrelid::regclass::text, 'trigger', pg_catalog.quote_ident(t.tgname), t.tgenabled = 'A'
from pg_catalog.pg_trigger t
where t.tgrelid in (select oid from trees) and not t.tgisinternal and t.tgenabled in ('O', 'A')
union all
select r.ev_class::regclass::text, 'rule', pg_catalog.quote_ident(r.rulename), r.ev_enabled = 'A'
from pg_catalog.pg_rewrite r where r.ev_class in (select oid from trees) and r.ev_enabled in ('O', 'A')
"""


def check_existing(session: Connection, url: str, tables: Sequence[Table], *, is_trusted: bool) -> None:
    """Refuse a target whose tables cannot take the rows.

    :param is_trusted: a superuser may run code of their owners: a CHECK, a default, the expression of an index.
    """
    places = [table.table_schema for table in tables], [table.name for table in tables]
    rows = session.execute(_FOUND, places).fetchall()
    columns = read_columns(session, [row[0] for row in rows if row[0] is not None])
    why: list[str] = []
    owners: set[str] = set()
    is_superuser = session.info.parameter_status("is_superuser") == "on"
    for table, (oid, may, owner, is_owned_by_superuser, is_hidden) in zip(tables, rows, strict=True):
        if oid is None:
            why.append(f"there is no table {table.label}")
            continue
        why += [f"{table.label} {each}" for each in _differences(table.columns, columns[oid])]
        if not may:
            why.append(f"{table.label} belongs to {owner}, and only its owner can fill it")
        elif is_hidden:
            why.append(f"policies of {table.label} hide rows from {session.info.user}")
        if is_superuser and not is_owned_by_superuser:
            owners.add(owner)
    if why:
        more = [f"{len(why) - _NAMED} more"] if len(why) > _NAMED else []
        raise RefusedError(
            f"{url} cannot take these rows: {'; '.join([*why[:_NAMED], *more])}. "
            "Mend that, leave tables out (--exclude), or restore without --data-only under another name (--map)"
        )
    if owners and not is_trusted:
        raise RefusedError(
            f"the tables belong to {named(sorted(owners), _NAMED)}, and their conditions and indexes may run code of "
            f"these with the rights of {session.info.user}, a superuser: restore as their owner, or say --trust-source"
        )
    if len(tables) > (most := most_locked(session)):
        raise RefusedError(
            f"{len(tables)} tables are to be filled in one transaction, and the server has locks for {most}: raise its "
            "max_locks_per_transaction, or choose fewer with --tables"
        )
    filling_order(session, tables)


def _differences(wanted: Sequence[Column], there: Sequence[Column]) -> Iterator[str]:
    """Yield, in words, why a table does not take the rows of another one."""
    found = {column.name: column for column in there}
    for column in wanted:
        other = found.get(column.name)
        if other is None:
            yield f"has no column {column.name}"
        elif (other.base_schema, other.base) != (column.base_schema, column.base) or other.takes_other_values(column):
            yield f"has a column {column.name} of type {other.type}, which is {column.type} in the archive"
        elif other.generated != column.generated:
            is_there = "is generated" if other.generated else "is not generated"
            yield f"has a column {column.name} that {is_there}, unlike that of the archive"


def check_without_rows(session: Connection, tables: Sequence[Table]) -> None:
    """Refuse tables that have rows."""
    filled: list[str] = []
    for start in range(0, len(tables), _ASKED_AT_ONCE):
        queries = (
            f"select {literal(table.label)} where exists (select from {_only(table)}"
            f"{qualified(table.table_schema, table.name)})"
            for table in tables[start : start + _ASKED_AT_ONCE]
        )
        filled += first_column(session, " union ".join(queries))
    if filled:
        raise RefusedError(
            f"{named(sorted(filled), _NAMED)} {'have' if len(filled) > 1 else 'has'} rows already, and --data-only "
            "fills empty tables: empty them (truncate), leave them out (--exclude), or restore without --data-only "
            "under another name (--map)"
        )


def present(
    session: Connection, values: Sequence[SequenceValue]
) -> tuple[tuple[SequenceValue, ...], tuple[NotRestored, ...]]:
    """Return the sequences that the target has, and those that it lacks."""
    there = set(session.execute(_SEQUENCES_THERE).fetchall())
    lacking = [value for value in values if (value.sequence_schema, value.name) not in there]
    named_so = tuple(
        NotRestored(f"where sequence {each.sequence_schema}.{each.name} stood", "the target has no such sequence")
        for each in lacking
        if not each.extension
    )
    return tuple(value for value in values if value not in lacking and not value.extension), named_so


def filling_order(session: Connection, tables: Sequence[Table]) -> list[Table]:
    """Return the tables in an order that foreign keys allow; deferrable ones ask for none.

    :raises RefusedError: they refer to each other in a circle.
    """
    names = _names(tables)
    roots = first_column(session, _ROOTS, (names,))
    asked: dict[str, set[str]] = {root: set() for root in roots}
    for root, other in session.execute(_KEYS, {"names": names}).fetchall():
        if other in asked and (other != root or roots.count(root) > 1):
            asked[root].add(other)
    try:
        places = {root: place for place, root in enumerate(TopologicalSorter(asked).static_order())}
    except CycleError as error:
        circle = named(sorted(set(error.args[1])))
        raise RefusedError(
            f"foreign keys of {circle} lead to each other, so that none can be filled first: make one of them "
            "deferrable (alter table … alter constraint … deferrable), or restore without --data-only"
        ) from None
    return [table for _, table in sorted(zip(roots, tables, strict=True), key=lambda pair: places[pair[0]])]


def fill(session: Connection, tables: Sequence[Table]) -> None:
    """Move the rows from staging tables, in the session's transaction; nobody else writes meanwhile.

    :raises RefusedError: they have rows, or do not take these.
    """
    names = _names(tables)
    try:
        session.execute(f"set local lock_timeout = '{LOCK_WAIT}'".encode())
        locked = sorted({f"{_only(table)}{name}" for table, name in zip(tables, names, strict=True)})
        session.execute(f"lock table {', '.join(locked)} in share row exclusive mode".encode())
        check_without_rows(session, tables)
        with _quiet(session, names):
            session.execute("set constraints all deferred")
            for table in filling_order(session, tables):
                bring_back(session, table)
            session.execute("set constraints all immediate")
    except psycopg.errors.LockNotAvailable as error:
        raise BusyError(f"others are at work in the tables ({' '.join(str(error).split())}): try again") from error
    except psycopg.Error as error:
        not_taken(session, "the tables do not take these rows", error)


@contextmanager
def _quiet(session: Connection, names: Sequence[str]) -> Iterator[None]:
    """Keep triggers and rules from what the block does, in the session's transaction."""
    acting = session.execute(_ACTING, {"names": names}).fetchall()
    _alter(session, [f"alter table only {table} disable {kind} {name}" for table, kind, name, _ in acting])
    yield
    _alter(
        session,
        [f"alter table only {table} enable {'always ' * always}{kind} {name}" for table, kind, name, always in acting],
    )


def _alter(session: Connection, statements: Sequence[str]) -> None:
    with unnoticed(session):
        for statement in statements:
            session.execute(statement.encode())


def _only(table: Table) -> str:
    """Return the word that leaves heirs of a table out; a root has its partitions' rows."""
    return "only " if table.has_rows else ""


def _names(tables: Sequence[Table]) -> list[str]:
    return [qualified(table.table_schema, table.name) for table in tables]
