"""Ownership of objects while code of the source may run, in a superuser's restore.

Rows come in by a log-in of the restore's own that has no superuser's rights (`restricted_login`). It is a member of the
owners, so that it may do what they may. What belongs to a role that may do more than own things (a superuser above all)
belongs to that log-in meanwhile: what runs as the owner, such as the function of an index, has no other rights than it.
Each thing is handed over to its owner when all of it is built and filled.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from holdfast.common.errors import RefusedError
from holdfast.common.words import named
from holdfast.sources.postgresql.catalog.large_objects import LARGE_OBJECTS
from holdfast.sources.postgresql.catalog.own_objects import LEDGER
from holdfast.sources.postgresql.connection.outages import words
from holdfast.sources.postgresql.connection.sql import ident, qualified
from holdfast.sources.postgresql.dump.sqltext import COMMENT, SPACE, statements
from holdfast.sources.postgresql.restore.plan.plan import NotRestored
from holdfast.sources.postgresql.restore.plan.progress import let_write, note_powerful, note_result, once, read_result
from holdfast.sources.postgresql.restore.plan.relaxed_constraints import refusal_of
from holdfast.sources.postgresql.restore.plan.stages import hiding
from holdfast.sources.postgresql.restore.rights.search_paths import note_own
from holdfast.sources.postgresql.restore.rights.target_rights import owner_statements, owners_of
from holdfast.sources.postgresql.restore.rights.unchanged import note_held

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import psycopg

    from holdfast.sources.postgresql.catalog.roles import Roles
    from holdfast.sources.postgresql.connection.parallel import Sessions
    from holdfast.sources.postgresql.dump.toc import DumpEntry
    from holdfast.sources.postgresql.restore.plan.plan import RestorePlan

    Connection = psycopg.Connection[tuple[Any, ...]]

_HELD = ("TABLE", "MATERIALIZED VIEW", "SEQUENCE", "FUNCTION", "PROCEDURE", "DOMAIN")
"""What code runs for or in, and what is altered while rows come in. A sequence follows the table it belongs to."""

_BATCH = 500
"""Statements in one transaction, each of which keeps the lock of a table."""

_POWERFUL = """
select r.rolname::text, r.rolsuper or r.rolbypassrls
from pg_catalog.pg_roles r where r.rolname = any(%s) and exists (
  select from pg_catalog.pg_roles d where pg_catalog.pg_has_role(r.oid, d.oid, 'MEMBER') and (
    d.rolsuper or d.rolcreaterole or d.rolcreatedb or d.rolreplication or d.rolbypassrls
    or (d.rolname ~ '^pg_' and d.rolname <> 'pg_database_owner')))
"""
"""Which of these roles may do more than own things in databases, also by what they are members of."""

_SUPERUSERS = "select rolname::text from pg_catalog.pg_roles where rolsuper and rolname = any(%s)"

_TABLES_LACKING = """
select name from pg_catalog.unnest(%(tables)s::text[]) name
where not (pg_catalog.has_table_privilege(%(login)s, name, 'SELECT')
  and pg_catalog.has_table_privilege(%(login)s, name, 'INSERT')
  and pg_catalog.has_table_privilege(%(login)s, name, 'UPDATE')
  and pg_catalog.has_table_privilege(%(login)s, name, 'DELETE')
  and pg_catalog.has_table_privilege(%(login)s, name, 'TRUNCATE'))
"""

_ROUTINES = f"""
routines as (
  select p.oid, p.pronamespace as schema from pg_catalog.pg_proc p
  join pg_catalog.pg_namespace n on n.oid = p.pronamespace where case
    when exists (select from {LEDGER}.created)
      then ('pg_catalog.pg_proc'::regclass::oid, p.oid) in (select class, object from {LEDGER}.created)
    else n.nspname not in ('pg_catalog', 'information_schema') end)
"""
"""Those of the restore: beside other things, the ones that it has noted."""

_SCHEMAS_LACKING = f"""
with {_ROUTINES} select pg_catalog.quote_ident(nspname) from pg_catalog.pg_namespace
where (nspname = any(%(schemas)s) or oid in (select schema from routines))
  and not pg_catalog.has_schema_privilege(%(login)s, oid, 'USAGE')
"""

_ROUTINES_LACKING = f"""
with {_ROUTINES} select oid::regprocedure::text from routines
where not pg_catalog.has_function_privilege(%(login)s, oid, 'EXECUTE')
"""


@dataclass(frozen=True)
class LoadingRole:
    """Log-in that loads, with the objects that it holds in the meantime.

    :param login: its name.
    :param handed_over: what gives each thing to its owner in the end, with what it is.
    :param kept_empty: materialised views, by schema and name, that nobody fills: as their owner, policies would hide
        rows from them, and that owner may do too much to be the one that code of the source runs as.
    """

    login: str
    handed_over: tuple[tuple[str, str], ...]
    kept_empty: frozenset[tuple[str, str]]


def check_namesakes(session: Connection, plan: RestorePlan, recorded: Roles | None) -> None:
    """Refuse superusers of the target with the names of ordinary roles of the source.

    Objects of these roles would come to them.

    :param recorded: with the backup; None where that was made by a release that did not record them.
    :raises RefusedError: names such roles.
    """
    ordinary = {role.name for role in recorded.roles if not role.superuser} if recorded else set()
    found = session.execute(_SUPERUSERS, (sorted(owners_of(plan) & ordinary),)).fetchall()
    if found:
        raise RefusedError(
            f"superusers here, and ordinary roles in the source: {named([name for (name,) in found])}. Functions of "
            "theirs would run with a superuser's rights from now on: restore them under other owners, or say "
            "--trust-source where these may do what a superuser may here"
        )


def prepare(session: Connection, plan: RestorePlan, login: str) -> tuple[RestorePlan, LoadingRole]:
    """Make a log-in a member of the owners, and plan the objects that it holds.

    Meanwhile it holds the objects of owners that may do more than own things.

    Meanwhile it has the objects of the roles that it may not be a member of.

    :param session: a superuser's. All roles are there by now.
    :return: the plan, and what is to be handed over in the end.
    """
    owners = {entry.id: [*owner_statements(entry.sql)] for entry in plan.entries}
    names = sorted({owner for some in owners.values() for _, owner in some})
    powerful = _powerful(session, names)
    let_write(session, login)
    options = " with inherit true, set false" if session.info.server_version >= 160000 else ""
    for name in names:
        if name not in powerful:
            session.execute(f"grant {ident(name)} to {login}{options}".encode())
    if any(powerful.values()):  # as theirs, the rows that a view is filled with are all that there are
        session.execute(f"alter role {login} bypassrls".encode())
    held = {
        entry.id: found
        for entry in plan.entries
        if entry.kind in _HELD and (found := [each for each in owners[entry.id] if each[1] in powerful])
    }
    runs, over = dict(plan.runs), list[tuple[str, str]]()
    for entry in sorted(plan.entries, key=lambda entry: _HELD.index(entry.kind) if entry.kind in _HELD else len(_HELD)):
        if given := held.get(entry.id):
            runs[entry.id] = _with_owner(plan.sql_of(entry), given, login)
            over += [(entry.label, statement) for statement, _ in given]
        elif entry.kind == "ACL" and (theirs := {owner for each in entry.needs for _, owner in held.get(each, ())}):
            runs[entry.id] = _without_grants_of(plan.sql_of(entry), theirs)
            over.append((entry.label, entry.sql))
    empty = {(entry.schema, entry.name) for entry in plan.entries if _shows_less(entry, held, powerful)}
    role = LoadingRole(login, tuple(over), frozenset(empty) if hiding(plan.entries) else frozenset())
    return replace(plan, runs=runs, login=login), role


def lend(session: Connection, plan: RestorePlan, role: LoadingRole) -> None:
    """Give a log-in the rights that it needs to load and that owners may lack.

    Whatever must be known before code of the source can run is noted, too.

    :param session: a superuser's. The tables are there.
    """
    note_own(session)
    names = [(each.target.table_schema, each.target.name) for each in plan.tables if each.source.oid != LARGE_OBJECTS]
    schemas = {schema for schema, _ in names} | ({entry.schema for entry in plan.entries} if not plan.beside else set())
    schemas |= {column.base_schema for each in plan.tables for column in each.target.columns}
    asked = {"login": role.login, "schemas": sorted(schemas), "tables": [qualified(*name) for name in names]}
    for rights, kind, query in (
        ("usage", "schema", _SCHEMAS_LACKING),
        ("execute", "routine", _ROUTINES_LACKING),
        ("select, insert, update, delete, truncate", "table", _TABLES_LACKING),
    ):
        lacking = [name for (name,) in session.execute(query, asked).fetchall()]
        for start in range(0, len(lacking), _BATCH):
            some = ", ".join(lacking[start : start + _BATCH])
            session.execute(f"grant {rights} on {kind} {some} to {role.login}".encode())
    note_held(session, role.login)


def hand_over(sessions: Sessions, role: LoadingRole) -> tuple[NotRestored, ...]:
    """Give a log-in's objects to their owners, with the owners' privileges.

    :return: what the server does not take: of things that could not be created.
    """
    batches = range(0, len(role.handed_over), _BATCH)
    done = sessions.run(batches, partial(_hand_over, role), at_once=1)
    return tuple(each for some in done for each in some)


def _hand_over(role: LoadingRole, session: Connection, start: int) -> Sequence[NotRestored]:
    some = role.handed_over[start : start + _BATCH]
    step = f"hand over {start}"
    with once(session, step) as is_new:
        if is_new:
            left: list[NotRestored] = []
            if refusal_of(session, "\n".join(statement for _, statement in some)) is not None:
                left += _one_by_one(session, some)
            note_result(session, step, json.dumps([each.describe() for each in left]))
    return [NotRestored.from_dict(each) for each in json.loads(read_result(session, step))]


def _one_by_one(session: Connection, some: Sequence[tuple[str, str]]) -> Iterator[NotRestored]:
    for what, statement in some:
        if (why := refusal_of(session, statement)) is not None:
            yield NotRestored(f"owner of {what}", words(why), statement)


def _powerful(session: Connection, names: Sequence[str]) -> Mapping[str, bool]:
    """Return the roles that may do more than own things.

    Each comes with whether it sees the rows that policies hide.
    """
    return note_powerful(session, dict(session.execute(_POWERFUL, (list(names),)).fetchall()))


def _with_owner(sql: str, given: Sequence[tuple[str, str]], login: str) -> str:
    for statement, _ in given:
        sql = sql.replace(statement, f"{statement.rpartition(' OWNER TO ')[0]} OWNER TO {login};", 1)
    return sql


def _without_grants_of(sql: str, roles: Collection[str]) -> str:
    """Return the statements that are not about the rights of these owners.

    The owner is another one yet.
    """
    return "\n".join(_others(sql, roles))


def _others(sql: str, roles: Collection[str]) -> Iterator[str]:
    for statement in statements(sql):
        found = [each for each in statement if each.kind not in (SPACE, COMMENT)]
        about = {name.identifier for word, name in pairwise(found) if word.word in ("TO", "FROM")}
        if not about.intersection(roles):
            yield "".join(each.text for each in statement)


def _shows_less(entry: DumpEntry, held: Collection[int], powerful: Mapping[str, bool]) -> bool:
    if entry.kind != "MATERIALIZED VIEW" or entry.id not in held:
        return False
    return not all(powerful[owner] for _, owner in owner_statements(entry.sql))
