"""Preconditions of a backup, all checked before anything is read.

A backup and `holdfast source check` ask the same questions here, so that the one never finds what the
other did not. PostgreSQL's own functions answer: they know of memberships, owners and superusers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.common.errors import RefusedError
from holdfast.common.words import named
from holdfast.postgresql.catalog.catalog_queries import NO_EXTENSION, USER_SCHEMA
from holdfast.postgresql.catalog.columns import UnkeepableTypeError, check_keepable
from holdfast.postgresql.connection.session import first_column, session_role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.session import Connection

OLDEST = 14
"""Major version of the oldest server: hash functions, `pg_read_all_data` and settings are used that came with it."""


@dataclass(frozen=True)
class Obstacle:
    """One obstacle, with its remedy.

    :param what: is the matter.
    :param do: what to do about it.
    """

    what: str
    do: str

    def __str__(self) -> str:
        return f"{self.what}: {self.do}"


@dataclass(frozen=True)
class Unreadable:
    """Objects of a database that the role cannot read completely.

    :param schemas: it may not use, with something in them.
    :param relations: tables and sequences it may not read or reach, as `schema.name`.
    :param hidden: tables of which row-level security would hide rows.
    """

    schemas: tuple[str, ...]
    relations: tuple[str, ...]
    hidden: tuple[str, ...]


def refuse(found: Iterable[Obstacle]) -> None:
    """Refuse if there is an obstacle.

    :raises RefusedError: naming all of them.
    """
    if said := "; ".join(str(each) for each in found):
        raise RefusedError(said)


# A partitioned table has no rows of its own, but to lock it takes the same right, and pg_dump does, too.
_FORBIDDEN = f"""
select n.nspname, n.nspname || '.' || c.relname, pg_catalog.has_schema_privilege(n.oid, 'usage')
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'S') and {USER_SCHEMA} and {NO_EXTENSION}
  and (not pg_catalog.has_schema_privilege(n.oid, 'usage') or not (case when c.relkind = 'S'
    then pg_catalog.has_sequence_privilege(c.oid, 'select') else pg_catalog.has_table_privilege(c.oid, 'select') end))
union all
select 'pg_catalog', 'pg_catalog.pg_largeobject', true where exists (select from pg_catalog.pg_largeobject_metadata)
  and not pg_catalog.has_table_privilege('pg_catalog.pg_largeobject', 'select')
order by 1, 2
"""

_HIDDEN_ROWS = f"""
select n.nspname || '.' || c.relname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and {USER_SCHEMA} and pg_catalog.row_security_active(c.oid) order by 1
"""

_UNLOGGED_SEQUENCES = f"""
select n.nspname || '.' || c.relname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'S' and c.relpersistence = 'u' and {USER_SCHEMA} and {NO_EXTENSION} and pg_catalog.pg_is_in_recovery()
order by 1
"""


def unreadable(session: Connection) -> Unreadable:
    """Return the objects of its database that the session's role cannot read completely."""
    forbidden = session.execute(_FORBIDDEN).fetchall()
    return Unreadable(
        schemas=tuple(sorted({schema for schema, _, usable in forbidden if not usable})),
        relations=tuple(name for _, name, _ in forbidden),
        hidden=tuple(first_column(session, _HIDDEN_ROWS)),
    )


def obstacles(session: Connection) -> Iterator[Obstacle]:
    """Yield the obstacles to any backup of the session's database.

    They do not depend on the chosen tables.
    """
    if session.info.server_version < OLDEST * 10000:
        yield Obstacle(
            f"the server is PostgreSQL {session.info.server_version // 10000}",
            f"upgrade it to {OLDEST} or newer, or back it up with pg_dump",
        )
        return
    if session.execute("show server_encoding").fetchone() == ("SQL_ASCII",):
        yield Obstacle(
            "the database's encoding is SQL_ASCII: its text has no known encoding and cannot be kept exactly",
            "move it into a database that has one, or back it up with pg_dump",
        )
    yield from _missing_rights(session_role(session), unreadable(session))
    if sequences := first_column(session, _UNLOGGED_SEQUENCES):
        yield Obstacle(
            f"the server is a standby, and unlogged sequences cannot be read on one ({named(sequences)})",
            "back up from the primary, or make them logged",
        )


def _missing_rights(user: str, found: Unreadable) -> Iterator[Obstacle]:
    if found.schemas:
        yield Obstacle(
            f"{user} may not use the schemas {named(found.schemas)}, and may not read {named(found.relations)}",
            f"grant pg_read_all_data to {user}, or USAGE on each schema and SELECT on each table and sequence",
        )
    elif found.relations:
        yield Obstacle(
            f"{user} may not read {named(found.relations)}",
            f"grant pg_read_all_data to {user}, or SELECT on each",
        )
    if found.hidden:
        yield Obstacle(
            f"row-level security would hide rows of {named(found.hidden)} from {user}",
            f"use a role with BYPASSRLS (alter role {user} bypassrls)",
        )


def choice_obstacles(catalog: Catalog, chosen: Sequence[Table], *, standby: bool) -> Iterator[Obstacle]:
    """Yield the obstacles to a backup of these tables' rows.

    :param standby: the server is one.
    """
    for table in chosen:
        yield from table_obstacles(table)
    unlogged = [table.label for table in chosen if table.persistence == "u"]
    if standby and unlogged:
        yield Obstacle(
            f"the server is a standby, and unlogged tables cannot be read on one ({named(unlogged)})",
            "back up from the primary, or leave these tables out (--tables, or exclude in archives.yaml)",
        )
    if broken := catalog.broken_references(chosen):
        yield Obstacle(
            f"with these tables alone nothing could be restored: {named(broken, 5, '; ')}",
            "choose both sides of each foreign key",
        )


def table_obstacles(table: Table) -> Iterator[Obstacle]:
    """Yield the obstacles to a backup of one table's rows.

    They do not depend on the other tables.
    """
    try:
        check_keepable(table.columns)
    except UnkeepableTypeError as error:
        what, _, do = str(error).rpartition(": ")
        yield Obstacle(f"{table.label}: {what}", do)
