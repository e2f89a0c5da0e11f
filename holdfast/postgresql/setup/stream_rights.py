"""Tasks of a database's owner for logical decoding, and their reversal.

Only who owns the tables may publish them, or change their replica identity: the second only with consent, table by
table, since the log then holds the whole old row of each update.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from holdfast.postgresql.catalog.catalog_queries import read_catalog, read_tables
from holdfast.postgresql.catalog.own_objects import PUBLISH_SCHEMA, PUBLISH_TRIGGER
from holdfast.postgresql.connection.session import first_column, first_value
from holdfast.postgresql.connection.sql import ident, literal
from holdfast.postgresql.logical import ddl_triggers as definitions
from holdfast.postgresql.logical.publication import plan_publication
from holdfast.postgresql.logical.publishable import read_relations
from holdfast.postgresql.setup.backup_role import GrantChange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.logical.publishable import PublishableRelation


_NAME = re.compile(r"stream (holdfast_[0-9a-f]{16})")
_DEFINITIONS = "definitions"
_IDENTITY = re.compile(r"identity of table ([0-9]+)")

# Who waits for this lock keeps all readers waiting behind it.
_PATIENCE = "SET LOCAL lock_timeout = '10s';"


@dataclass(frozen=True)
class WantedStream:
    """A stream that is to be followed.

    :param name: of its slot and its publication.
    :param tables, exclude: globs of the tables that are backed up.
    :param identity_full: globs of those that may get REPLICA IDENTITY FULL, where they lack a usable one.
    :param definitions: event triggers may log when definitions change.
    """

    name: str
    tables: Sequence[str] = ()
    exclude: Sequence[str] = ()
    identity_full: Sequence[str] = ()
    definitions: bool = False


def owners_tasks(session: Connection, wanted: WantedStream) -> Iterator[GrantChange]:
    """Yield the owner's tasks before logical decoding of the session's database."""
    catalog = read_catalog(session, read_tables(session), values=False)
    tables = catalog.with_rows(wanted.tables, wanted.exclude)
    catalog.matching(wanted.identity_full)
    chosen = {table.oid for table in tables}
    full = {
        oid: relation
        for oid, relation in read_relations(session).items()
        if oid in chosen and any(fnmatchcase(relation.label, glob) for glob in wanted.identity_full)
        if relation.full_helps(session.info.server_version)
    }
    for oid, relation in full.items():
        yield GrantChange(
            f"keep whole old rows of {relation.label} in the log: it has no usable key",
            (_PATIENCE, f"ALTER TABLE ONLY {relation.sql} REPLICA IDENTITY FULL;"),
            f"identity of table {oid}",
            (_identity(session, relation),),
        )
    plan = plan_publication(session, wanted.name, tables, full=frozenset(full))
    if statements := plan.statements():
        yield GrantChange("publish the changes of the tables that are backed up", statements, f"stream {wanted.name}")
    if (wanted.definitions or definitions.trigger_version(session)) and not definitions.is_current(session):
        cleared = definitions.DROPPED if definitions.has_triggers(session) else ()
        yield GrantChange("let the log tell when definitions change", (*cleared, *definitions.CREATED), _DEFINITIONS)


def removals(session: Connection) -> Iterator[GrantChange]:
    """Yield the tasks that remove what earlier releases made, and no database should have."""
    if has_new_tables_trigger(session):
        why = "remove the event trigger of --new-tables, by which owners of schemas can become superuser"
        yield GrantChange(why, _NEW_TABLES_DROPPED, "new tables")


def offers(session: Connection, wanted: WantedStream) -> Iterator[str]:
    """Yield the owner's further options, each with its benefit."""
    if not wanted.definitions and not definitions.trigger_version(session):
        yield (
            "moments between two backups have their own definitions before the first change and behind the last one "
            "with --definitions: event triggers of a superuser tell the log of each change"
        )


def _identity(session: Connection, relation: PublishableRelation) -> str:
    if relation.identity == "i":
        for name, is_identity in session.execute(_INDEXES, (relation.oid,)):
            if is_identity:
                return f"index {name}"
    return "default" if relation.identity == "d" else "nothing"


_INDEXES = """
select c.relname::text, i.indisreplident from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid
where i.indrelid = %s and i.indisvalid and i.indisunique and i.indimmediate
"""


def taken_back(session: Connection, given: Mapping[str, Sequence[str]], names: Sequence[str]) -> Iterator[GrantChange]:
    """Yield the tasks that undo the owner's part in the session's database, but for slots."""
    for name in names:
        if session.execute("select 1 from pg_catalog.pg_publication where pubname = %s", (name,)).fetchone():
            yield GrantChange("no longer publish changes", (f"DROP PUBLICATION {ident(name)};",))
    if _DEFINITIONS in given and definitions.has_triggers(session):
        yield GrantChange("no longer let the log tell when definitions change", definitions.DROPPED)
    relations = read_relations(session) if any(_IDENTITY.fullmatch(key) for key in given) else {}
    for key, had in given.items():
        found = _IDENTITY.fullmatch(key)
        relation = relations.get(int(found[1])) if found else None
        if relation and relation.identity == "f":
            back = f"ALTER TABLE ONLY {relation.sql} REPLICA IDENTITY {_identity_before(session, relation, had)};"
            yield GrantChange(f"the replica identity that {relation.label} had", (_PATIENCE, back))


def _identity_before(session: Connection, relation: PublishableRelation, had: Sequence[str]) -> str:
    """Return the recorded replica identity, as far as it still exists; no text of the record is run."""
    if "default" in had:
        return "DEFAULT"
    names = [name for name, _ in session.execute(_INDEXES, (relation.oid,)) if f"index {name}" in had]
    return f"USING INDEX {ident(names[0])}" if names else "NOTHING"


def stream_names(given: Mapping[str, Sequence[str]], named: str | None) -> tuple[str, ...]:
    """Return the names of the recorded streams and of the named one, each once."""
    recorded = [found[1] for key in given if (found := _NAME.fullmatch(key))]
    return tuple(dict.fromkeys([*recorded, *([named] if named else [])]))


def dropped_slots(session: Connection, names: Sequence[str]) -> Iterator[GrantChange]:
    """Yield the tasks that drop slots, which do not come back if the transaction fails."""
    for name in names:
        slot = f"slot_name = {literal(name)} AND database = pg_catalog.current_database()"
        found = f"FROM pg_catalog.pg_replication_slots WHERE {slot}"
        if session.execute(f"select 1 {found}".encode()).fetchone():
            drop = f"SELECT pg_catalog.pg_drop_replication_slot(slot_name) {found};"
            yield GrantChange("no longer keep the server's log for changes", (drop,))


_STREAMS = """
select slot_name::text from pg_catalog.pg_replication_slots
where slot_name ~ '^holdfast_[0-9a-f]{16}$' and not temporary and database = pg_catalog.current_database()
union select pubname::text from pg_catalog.pg_publication where pubname ~ '^holdfast_[0-9a-f]{16}$'
order by 1
"""


def streams_of(session: Connection) -> tuple[str, ...]:
    """Return the names of all streams in the session's database, of any archive, also of half ones."""
    return tuple(first_column(session, _STREAMS))


_NEW_TABLES_DROPPED: Final = (
    f"DROP EVENT TRIGGER IF EXISTS {PUBLISH_TRIGGER};",
    f"DROP SCHEMA IF EXISTS {PUBLISH_SCHEMA} CASCADE;",
)
"""Removes the event trigger of earlier releases that published new tables.

Its function ran with a superuser's rights and took new tables by name, in place of which their schema's owner could put
a view of his. To add a table to a publication takes the rights of both owners: it cannot be done with less.
"""

_NEW_TABLES_LEFT: Final = f"""
select exists (select from pg_catalog.pg_event_trigger where evtname = {literal(PUBLISH_TRIGGER)})
  or exists (select from pg_catalog.pg_namespace where nspname = {literal(PUBLISH_SCHEMA)})
"""


def has_new_tables_trigger(session: Connection) -> bool:
    """Return whether any part of the event trigger exists."""
    return bool(first_value(session, _NEW_TABLES_LEFT))
