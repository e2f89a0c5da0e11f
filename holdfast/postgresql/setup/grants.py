"""Grants for a backup role on one server, given and taken back: planned, scripted or run.

A plan holds only what is missing, so a second one is empty. What belongs to the whole server (the role, its attributes
and memberships) is done in the transaction of the first database, or taken back in that of the last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import psycopg

from holdfast.common.errors import HoldfastError, RefusedError
from holdfast.common.words import named
from holdfast.postgresql.catalog.catalog_queries import USER_SCHEMA
from holdfast.postgresql.connection.reading_role import reader_of
from holdfast.postgresql.connection.session import connect, first_column, first_value, session_role
from holdfast.postgresql.connection.sql import ident, literal
from holdfast.postgresql.setup.backup_role import MARK, BackupRoleRecord, GrantChange, Role, read_role
from holdfast.postgresql.setup.schema_rights import read_schemas
from holdfast.postgresql.setup.stream_rights import (
    dropped_slots,
    offers,
    owners_tasks,
    removals,
    stream_names,
    taken_back,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.setup.stream_rights import WantedStream


_CREATED = "created"
_MEMBER = "pg_read_all_data"


@dataclass(frozen=True)
class DatabaseGrants:
    """Changes in one database, made in one transaction."""

    database: str
    changes: tuple[GrantChange, ...]


@dataclass(frozen=True)
class Plan:
    """Planned changes for a role; none without parts.

    :param notes: what a person should know of it.
    :param left: says, in a session that has done a part, what of it has had no effect.
    """

    role: str
    parts: tuple[DatabaseGrants, ...]
    notes: tuple[str, ...] = ()
    left: Callable[[Connection], Sequence[str]] = lambda session: ()


def plan_setup(
    address: Address,
    databases: Sequence[str],
    role_name: str,
    *,
    per_schema: bool = False,
    replication: bool = False,
    streams: Mapping[str, WantedStream] | None = None,
) -> Plan:
    """Plan the rights that a role lacks to back up databases.

    :param databases: of one server; the first one's transaction also does what is of the whole server.
    :param per_schema: give rights on each schema instead of the membership in pg_read_all_data.
    :param replication: give the REPLICATION right, for an exact log position.
    :param streams: by database, what is to be followed there; it takes the REPLICATION right, too.
    """
    with connect(address) as session:
        role = read_role(session, role_name)
        _refuse_another(session, role, databases)
        version = session.info.server_version
    if role.superuser and not streams:
        return Plan(role.name, (), (f"{role.name} is a superuser and needs nothing: name another role with --role",))
    wanted = _Wanted(per_schema, replication or bool(streams), streams or {})
    found: list[tuple[str, list[GrantChange]]] = []
    hides = False
    offered: dict[str, None] = {}
    for database in databases:
        with connect(address.at_database(database)) as session:
            hides = hides or _hides_rows(session, role)
            found.append((database, list(_lacks(session, role, wanted))))
            if database in wanted.streams:
                offered |= dict.fromkeys(offers(session, wanted.streams[database]))
    of_role = list(_role_lacks(role, version, wanted, bypassrls=hides))
    record = replace(role.record, of_role=(*role.record.of_role, *(lack.key for lack in of_role)))
    changes, parts = of_role, []
    written = role.record.comment()
    for database, lacks in found:
        changes += lacks
        if lacks or record.of_role:
            given = {**{lack.key: lack.had for lack in lacks}, **record.databases.get(database, {})}
            record = record.with_database(database, given)
        if changes or record.comment() != written:
            parts.append(DatabaseGrants(database, (*changes, _remember(role, record))))
        changes, written = [], record.comment()
    notes = () if role.exists else (f"{role.name} has no password yet: set one in psql with \\password {role.quoted}",)
    return Plan(role.name, tuple(parts), (*notes, *offered), lambda session: _still_lacks(session, role.name, wanted))


_BECOMES = """
select pg_catalog.substr(made, 6), d.datname
from pg_catalog.pg_db_role_setting s join pg_catalog.pg_roles r on r.oid = s.setrole
  cross join pg_catalog.unnest(s.setconfig) made left join pg_catalog.pg_database d on d.oid = s.setdatabase
where r.rolname = %s and made like 'role=%%' and made <> 'role=none' and (s.setdatabase = 0 or d.datname = any(%s))
order by s.setdatabase limit 1
"""


def _refuse_another(session: Connection, role: Role, databases: Sequence[str]) -> None:
    """Refuse a role that becomes another one as it logs in: what it is given would not count."""
    row = session.execute(_BECOMES, (role.name, list(databases))).fetchone()
    if row is not None:
        within = f" in database {ident(row[1])}" if row[1] else ""
        raise RefusedError(
            f"{role.name} becomes {row[0]} as it logs in, so that what it is given would not count: alter role "
            f"{role.quoted}{within} reset role, or name another role with --role"
        )


@dataclass(frozen=True)
class _Wanted:
    per_schema: bool
    replication: bool
    streams: Mapping[str, WantedStream]


def _still_lacks(session: Connection, name: str, wanted: _Wanted) -> list[str]:
    role = read_role(session, name)
    of_role = _role_lacks(role, session.info.server_version, wanted, bypassrls=_hides_rows(session, role))
    return [lack.why for lack in (*of_role, *_lacks(session, role, wanted))]


def _role_lacks(role: Role, version: int, wanted: _Wanted, *, bypassrls: bool) -> Iterator[GrantChange]:
    if role.superuser:
        return
    if not role.exists:
        made = f"CREATE ROLE {role.quoted} LOGIN;"
        yield GrantChange("who backups log in as; without a password yet", (made,), _CREATED)
    elif not role.login:
        yield GrantChange("backups log in as this role", (f"ALTER ROLE {role.quoted} LOGIN;",), "login")
    if not wanted.per_schema and not role.reads_all:
        if not role.inherits and version < 160000:
            raise RefusedError(
                f"{role.name} is NOINHERIT and would not have the rights of {_MEMBER}: make it INHERIT, or use "
                "--per-schema"
            )
        how = "" if role.inherits else " WITH INHERIT TRUE"
        why = "read all schemas, tables and sequences of every database it may connect to"
        yield GrantChange(why, (f"GRANT {_MEMBER} TO {role.quoted}{how};",), _MEMBER)
    if bypassrls and not role.bypassrls:
        why = "read all rows of tables with row-level security"
        yield GrantChange(why, (f"ALTER ROLE {role.quoted} BYPASSRLS;",), "bypassrls")
    if wanted.replication and not role.replication:
        why = "make the slot that gives an exact log position" + (" and changes" if wanted.streams else "")
        yield GrantChange(why, (f"ALTER ROLE {role.quoted} REPLICATION;",), "replication")


_HIDES = f"""
select exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'r' and c.relrowsecurity and {USER_SCHEMA}
    and (c.relforcerowsecurity or %(new)s or not pg_catalog.pg_has_role(%(role)s, c.relowner, 'usage')))
"""


def _hides_rows(session: Connection, role: Role) -> bool:
    # The role is looked up while the query is planned, so there has to be one.
    values = {"new": not role.exists, "role": role.name if role.exists else session_role(session)}
    return bool(first_value(session, _HIDES, values))


def _lacks(session: Connection, role: Role, wanted: _Wanted) -> Iterator[GrantChange]:
    """Yield a role's missing rights in the session's database, and missing tasks of the owner."""
    database = session.info.dbname
    stream = wanted.streams.get(database)
    yield from removals(session)
    if stream:
        yield from owners_tasks(session, stream)
    if not role.superuser:
        yield from _rights_lacks(session, role, wanted, database)


def _rights_lacks(session: Connection, role: Role, wanted: _Wanted, database: str) -> Iterator[GrantChange]:
    may = "select pg_catalog.has_database_privilege(%s, %s, 'connect')"
    if session.execute(may, (role.subject, database)).fetchone() != (True,):
        given = f"GRANT CONNECT ON DATABASE {ident(database)} TO {role.quoted};"
        yield GrantChange(f"connect to {database}, where not everybody may", (given,), "connect")
    if wanted.per_schema and not role.reads_all:
        for schema in read_schemas(session, role):
            if statements := schema.grants(role.quoted):
                yield GrantChange(f"read schema {schema.name}, now and later", statements, schema.key, schema.had)
        if session.execute(_UNREADABLE_LARGE_OBJECTS, (role.subject,)).fetchone() == (True,):
            given = f"GRANT SELECT ON {_LARGE_OBJECTS} TO {role.quoted};"
            yield GrantChange("read all large objects, now and later", (given,), _LARGE_OBJECTS)


_LARGE_OBJECTS = "pg_catalog.pg_largeobject"
_UNREADABLE_LARGE_OBJECTS = f"""
select exists (select from pg_catalog.pg_largeobject_metadata)
  and not pg_catalog.has_table_privilege(%s, '{_LARGE_OBJECTS}', 'select')
"""


def plan_remove(
    address: Address,
    databases: Sequence[str],
    role_name: str,
    *,
    keep_role: bool = False,
    streams: Mapping[str, str] | None = None,
) -> Plan:
    """Plan the removal of all that setup has given a role; with its last database the role goes, too.

    :param keep_role: do not drop the role, even where setup has created it.
    :param streams: by database, the name of a stream that goes, too, whether setup or a backup has made it.
    """
    with connect(address) as session:
        role = read_role(session, role_name)
        there = set(first_column(session, "select datname from pg_catalog.pg_database"))
        owned = tuple(first_column(session, _OWNED, {"role": role.name}))
    record = role.record
    ours = [database for database in databases if database in record.databases]
    loose = list(_loose_streams(address, databases, record, streams or {}))
    if not ours and not loose:
        others = f", only in {named(sorted(record.databases))}" if record.databases else ""
        return Plan(role.name, (), (f"setup has given {role.name} nothing in {named(list(databases))}{others}",))
    left = [database for database in record.databases if database in there and database not in ours]
    dropped = not left and _CREATED in record.of_role and not keep_role
    if dropped and owned:
        raise RefusedError(
            f"{role.name} owns {named(owned)}, so it is not dropped: give that to another role (reassign owned by), or "
            "use --keep-role"
        )
    parts = loose
    for database in ours:
        given = record.databases[database]
        names = stream_names(given, (streams or {}).get(database))
        with connect(address.at_database(database)) as session:
            changes = [*taken_back(session, given, names), *_taken_back(session, role, given)]
            slots = tuple(dropped_slots(session, names))
        record = record.with_database(database, None)
        if database == ours[-1] and not left:
            drop = GrantChange("setup has created the role, and it is needed no longer", (f"DROP ROLE {role.quoted};",))
            changes += [drop] if dropped else _strip(role)
            record = BackupRoleRecord(record.words, (), {})
        forget = () if database == ours[-1] and dropped else (_remember(role, record),)
        # A slot that was dropped does not come back where the rest fails: it comes last.
        parts.append(DatabaseGrants(database, (*changes, *forget, *slots)))
    notes = (f"{role.name} keeps what {named(left)} needs: setup has made it ready for that, too",) if left else ()
    return Plan(role.name, tuple(parts), notes, lambda session: _still_member(session, role))


def _loose_streams(
    address: Address, databases: Sequence[str], record: BackupRoleRecord, streams: Mapping[str, str]
) -> Iterator[DatabaseGrants]:
    """Yield the removal of streams in databases without grants by setup."""
    for database in databases:
        if database in streams and database not in record.databases:
            with connect(address.at_database(database)) as session:
                names = (streams[database],)
                tasks = (*taken_back(session, {}, names), *dropped_slots(session, names))
            if tasks:
                yield DatabaseGrants(database, tasks)


def _taken_back(session: Connection, role: Role, given: Mapping[str, Sequence[str]]) -> Iterator[GrantChange]:
    for schema in read_schemas(session, role):
        if schema.key in given:
            yield GrantChange(f"no longer read schema {schema.name}", schema.revokes(role.quoted, given[schema.key]))
    if _LARGE_OBJECTS in given:
        taken = f"REVOKE SELECT ON {_LARGE_OBJECTS} FROM {role.quoted};"
        yield GrantChange("no longer read large objects", (taken,))
    if "connect" in given:
        database = session.info.dbname
        yield GrantChange(
            f"no longer connect to {database}", (f"REVOKE CONNECT ON DATABASE {ident(database)} FROM {role.quoted};",)
        )


def _strip(role: Role) -> list[GrantChange]:
    """Return the changes that revoke setup's rights from a role that stays."""
    attributes = {"login": "NOLOGIN", "bypassrls": "NOBYPASSRLS", "replication": "NOREPLICATION"}
    given = role.record.of_role
    changes = [
        GrantChange(f"no longer {key}", (f"ALTER ROLE {role.quoted} {attribute};",))
        for key, attribute in attributes.items()
        if key in given
    ]
    if _MEMBER in given:
        changes.append(GrantChange("no longer read everything", (f"REVOKE {_MEMBER} FROM {role.quoted};",)))
    return changes


_MEMBERSHIP = """
select 'it is still a member of ' || g.rolname || ', by ' || pg_catalog.pg_get_userbyid(m.grantor)
from pg_catalog.pg_auth_members m join pg_catalog.pg_roles g on g.oid = m.roleid
  join pg_catalog.pg_roles r on r.oid = m.member
where g.rolname = %(group)s and r.rolname = %(role)s order by 1
"""


def _still_member(session: Connection, role: Role) -> list[str]:
    if _MEMBER in read_role(session, role.name).record.of_role or _MEMBER not in role.record.of_role:
        return []
    return first_column(session, _MEMBERSHIP, {"group": _MEMBER, "role": role.name})


def _remember(role: Role, record: BackupRoleRecord) -> GrantChange:
    comment = record.comment()
    said = "NULL" if comment is None else literal(comment)
    why = (
        "what was given, for holdfast source remove" if comment and MARK in comment else "nothing is left to take back"
    )
    return GrantChange(why, (f"COMMENT ON ROLE {role.quoted} IS {said};",))


_OWNED = """
select case when s.dbid in (0, d.oid) then pg_catalog.pg_describe_object(s.classid, s.objid, s.objsubid)
  else format('objects of database %%s', o.datname) end
from pg_catalog.pg_shdepend s join pg_catalog.pg_database d on d.datname = pg_catalog.current_database()
  left join pg_catalog.pg_database o on o.oid = s.dbid
where s.refclassid = 'pg_catalog.pg_authid'::regclass and s.deptype = 'o'
  and s.refobjid = (select oid from pg_catalog.pg_roles where rolname = %(role)s)
group by 1 order by 1
"""


def script(plan: Plan) -> str:
    """Return a plan as a script for psql, with a transaction for each database."""
    lines = ["-- For psql, as a superuser", *(f"-- {_one_line(note)}" for note in plan.notes), "\\set ON_ERROR_STOP on"]
    for part in plan.parts:
        lines += ["", _connect_line(part.database), "BEGIN;"]
        for change in part.changes:
            lines += [f"-- {_one_line(change.why)}", *change.statements]
        lines.append("COMMIT;")
    return "\n".join(lines)


def _one_line(words: str) -> str:
    """Return words on one line, safe inside an SQL comment."""
    return " ".join(words.split())


def _connect_line(database: str) -> str:
    """Return psql's connect line for a database of any name, as pg_dumpall writes it."""
    if re.fullmatch(r"[A-Za-z0-9_.]+", database):
        return f"\\connect {database}"
    if re.search(r"[\r\n]", database):
        raise RefusedError(f"psql cannot connect to a database named {database!r}: use --run")
    escaped = re.sub(r"(['\\])", r"\\\1", database)
    return "\\connect -reuse-previous=on " + ident(f"dbname='{escaped}'")


def run(address: Address, plan: Plan) -> None:
    """Carry out a plan as the address's user; what was done in databases before a failure stays."""
    done: list[str] = []
    for part in plan.parts:
        try:
            with connect(address.at_database(part.database)) as session, session.transaction():
                for change in part.changes:
                    for statement in change.statements:
                        session.execute(statement.encode())
                if left := plan.left(session):
                    raise RefusedError(f"{session_role(session)} cannot do all of it for {plan.role}: {named(left)}")
        except (psycopg.Error, HoldfastError) as error:
            before = f"done before: {named(done)}" if done else "nothing was changed"
            raise _failure(error, plan, part.database, before) from error
        done.append(part.database)


def _failure(error: Exception, plan: Plan, database: str, before: str) -> HoldfastError:
    if isinstance(error, psycopg.errors.DependentObjectsStillExist):
        detail = "; ".join((error.diag.message_detail or "").splitlines())
        return RefusedError(
            f"{plan.role} still has what setup did not give ({detail}); {before}: take it back, or use --keep-role"
        )
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        or_else = ", or use --per-schema" if _MEMBER in str(error) else ""
        return HoldfastError(f"in {database}: {_one_line(str(error))}; {before}: run it as a superuser{or_else}")
    if isinstance(error, RefusedError):
        return RefusedError(f"in {database}: {error}; {before}: run it as a superuser")
    if isinstance(error, HoldfastError):
        return HoldfastError(f"in {database}: {error}; {before}")
    return HoldfastError(f"in {database}: {_one_line(str(error))}; {before}: try again")


def plan_reader(
    address: Address, databases: Sequence[str], role_name: str, *, per_schema: bool = False
) -> Iterator[Plan]:
    """Yield the plan of the reading role of a role; none for a superuser, who reads as such."""
    with connect(address) as session:
        role, reader = (read_role(session, name) for name in (role_name, reader_of(role_name)))
    if role.superuser:
        return
    plan = plan_setup(address, databases, reader.name, per_schema=per_schema)
    note = (
        f"{reader.name} reads rows for {role.name}, without its REPLICATION right, once it has the same "
        f"password: set it in psql with \\password {reader.quoted}, or one of its own in ~/.pgpass"
    )
    yield plan if reader.exists else replace(plan, notes=(note,))
