"""Progress of a restore, recorded in its target (the ledger): finished steps, and objects that an undo drops.

A note is made in the transaction that does what it says, so it is true after a crash at any point, and a step that is
tried twice is done once.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import psycopg

from holdfast.common.errors import BusyError, RefusedError
from holdfast.postgresql.catalog.own_objects import LEDGER, LOADER
from holdfast.postgresql.connection.session import first_value
from holdfast.postgresql.connection.session_errors import words
from holdfast.postgresql.restore.plan.plan import NotRestored
from holdfast.postgresql.restore.plan.target_state import Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from holdfast.postgresql.connection.session import Connection

ROWS_ASIDE = "rows_"
"""Begins the names of tables that rows are changed in; their columns may be of the restore's types."""

LOCK_WAIT = "60s"
"""For each lock that undoing a restore takes, as PostgreSQL's `lock_timeout`."""

_CATALOGS = {
    "pg_namespace": "true",
    "pg_extension": "true",
    "pg_type": "typtype in ('b', 'd', 'e', 'r') or not typisdefined or (typtype = 'c' and typrelid in "
    "(select c.oid from pg_catalog.pg_class c where c.relkind = 'c'))",
    "pg_proc": "true",
    "pg_operator": "true",
    "pg_opclass": "true",
    "pg_opfamily": "true",
    "pg_collation": "true",
    "pg_conversion": "true",
    "pg_cast": "true",
    "pg_language": "true",
    "pg_transform": "true",
    "pg_ts_config": "true",
    "pg_ts_dict": "true",
    "pg_ts_parser": "true",
    "pg_ts_template": "true",
    "pg_foreign_data_wrapper": "true",
    "pg_foreign_server": "true",
    "pg_am": "true",
    "pg_class": "relkind in ('r', 'p', 'v', 'm', 'f', 'S')",
}
"""Catalogs of the objects that a restore creates, and which of their rows stand for one."""

# What is part of another object, or of an extension, goes with it.
_OBJECTS = " union all ".join(
    f"select '{name}'::regclass::oid::int8 as class, t.oid::int8 as object, t.xmin as made_by "
    f"from pg_catalog.{name} t where ({condition}) and not exists (select from pg_catalog.pg_depend d "
    f"where d.classid = '{name}'::regclass and d.objid = t.oid and d.objsubid = 0 "
    "and d.deptype in ('e', 'i', 'a') and (d.refclassid, d.refobjid) <> (d.classid, d.objid))"
    for name, condition in _CATALOGS.items()
)

# Their own catalog is for superusers alone. A restore makes one only for a server that it has made itself.
_OBJECTS += """
union all select 'pg_catalog.pg_user_mapping'::regclass::oid::int8, m.umid::int8, s.xmin
from pg_catalog.pg_user_mappings m join pg_catalog.pg_foreign_server s on s.oid = m.srvid
"""

# What is visible and not yet committed is this transaction's own, also what it did behind a savepoint, by another id.
_YOUNGER = "(pg_catalog.age(pg_catalog.pg_current_xact_id()::xid)::int8 - pg_catalog.age(made_by))"
_OWN = f"""
case when {_YOUNGER} >= 0 then pg_catalog.pg_xact_status(
  (pg_catalog.pg_current_xact_id()::text::int8 + {_YOUNGER})::text::xid8) = 'in progress' end
"""

# The login that builds notes what it has made, and may name only what is its own.
_LEFT = f"""
select c.class, c.object, i.type, i.identity from (
  select 1 as later, 'pg_catalog.pg_class'::regclass::oid as class, d.relation as object, d.place, d.detached_by as by
  from {LEDGER}.detached d
  union all select 0, c.class, c.object, c.place, c.made_by from {LEDGER}.created c
) c, pg_catalog.pg_identify_object(c.class, c.object, 0) i
where i.identity is not null and (not pg_catalog.starts_with(c.by, '{LOADER}') or not exists (
  select from pg_catalog.pg_shdepend o where o.classid = c.class and o.objid = c.object and o.deptype = 'o'
    and not pg_catalog.pg_has_role(c.by::name, o.refobjid, 'USAGE')))
order by c.later desc, c.place desc
"""

_ASIDE = f"""
select oid::regclass::text from pg_catalog.pg_class
where relnamespace = '{LEDGER}'::regnamespace and relkind = 'r' and pg_catalog.starts_with(relname, '{ROWS_ASIDE}')
"""

_FOREIGN_KEYS = f"""
select conrelid::regclass::text, quote_ident(conname) from pg_catalog.pg_constraint
where contype = 'f' and conparentid = 0 and (conrelid, 1259) in (select object, class from {LEDGER}.created)
"""


_REFUSING = """
select pg_catalog.quote_ident(t.evtname) from pg_catalog.pg_event_trigger t
join pg_catalog.pg_proc p on p.oid = t.evtfoid
where t.evtenabled <> 'D' and exists (
  select from pg_catalog.unnest(array[' ', '.']) b (before)
  where pg_catalog.strpos(%s, b.before || pg_catalog.quote_ident(p.proname) || '(') > 0
) order by 1
"""
"""Event triggers whose function is in the context of an error."""


@dataclass(frozen=True)
class TargetClaim:
    """Identity of the unfinished restore in a target; one can go on with an equal one.

    :param block: id of the full backup.
    :param is_data_only: it fills tables that were there.
    """

    archive: str
    block: str
    tables: tuple[str, ...]
    maps: tuple[str, ...]
    commit: int = field(compare=False)
    run: str = field(compare=False)
    position: str = ""
    is_data_only: bool = False

    @property
    def is_undoable(self) -> bool:
        """Return whether it records what it creates, since other things may be in its target."""
        return bool(self.tables or self.maps or self.is_data_only)

    @property
    def at(self) -> str:
        """Return the recovery target in the syntax of `--at`."""
        return f"lsn:{self.position}" if self.position else f"commit:{self.commit}"

    def difference(self, left: TargetClaim) -> str:
        """Return the reason against resuming another restore; "" if there is none."""
        if self.archive != left.archive:
            return "this one is from another archive"
        if (self.block, self.position) != (left.block, left.position):
            return f"this one is of commit {self.commit}{f', position {self.position}' if self.position else ''}"
        if self.is_data_only != left.is_data_only:
            return f"this one is {'' if self.is_data_only else 'not '}--data-only"
        return "" if self == left else "this one is of other tables or names"

    def describe(self) -> str:
        """Return a description of the restore for people."""
        where = f", position {self.position}" if self.position else ""
        return f"an unfinished restore of commit {self.commit}{where} (run {self.run})"


@dataclass(frozen=True)
class UnfinishedRestore:
    """Remains of an unfinished restore in its target.

    :param plan: digest of what it creates.
    :param found: what the target had before it.
    :param steps: finished ones with their results; the step of a file is its path.
    :param crashed: the server has since, which empties unlogged tables.
    """

    claim: TargetClaim
    plan: str
    found: Target
    steps: Mapping[str, str]
    crashed: bool


def create_ledger(session: Connection, claim: TargetClaim, *, plan: str = "", found: Target | None = None) -> None:
    """Mark a target as unfinished. From now on each step is done once, by `once`."""
    objects = json.dumps(sorted((found or Target()).objects))
    with unnoticed(session):
        session.execute((_TABLES + _LOGINS_TABLES).encode())
        session.execute(f"insert into {LEDGER}.restore values (%s, %s, %s)", (json.dumps(asdict(claim)), plan, objects))


_TABLES = f"""
create schema {LEDGER};
create table {LEDGER}.done (step text primary key, result text);
create table {LEDGER}.created (place int8 generated always as identity, class oid, object oid);
create unlogged table {LEDGER}.no_crash as select true;
create table {LEDGER}.restore (claim text, plan text, found text);
"""
_LOGINS_TABLES = f"""
alter table {LEDGER}.created add column if not exists made_by text not null default session_user;
create table if not exists {LEDGER}.loaded (step text primary key, result text);
create table if not exists {LEDGER}.detached (
  place int8 generated always as identity, relation oid, detached_by text not null default current_user);
create table if not exists {LEDGER}.kept (name text primary key, value text);
"""


def keep(session: Connection, name: str, value: str) -> None:
    """Keep a value that the login must not read, for the end of the restore or its next try."""
    session.execute(
        f"insert into {LEDGER}.kept values (%s, %s) on conflict (name) do update set value = excluded.value",
        (name, value),
    )


def read_kept(session: Connection, name: str) -> str:
    """Return a kept value; "" where there is none."""
    return str(first_value(session, f"select value from {LEDGER}.kept where name = %s", (name,)) or "")


def let_write(session: Connection, login: str) -> None:
    """Let a login record what it does, and keep tables in the ledger's schema."""
    session.execute(
        f"grant usage, create on schema {LEDGER} to {login};"
        f"grant select on {LEDGER}.restore, {LEDGER}.done, {LEDGER}.created, {LEDGER}.loaded, {LEDGER}.detached,"
        f" {LEDGER}.no_crash to {login};"
        f"grant select, insert, update, delete on {LEDGER}.loaded to {login};"
        f"grant insert (class, object) on {LEDGER}.created to {login};"
        f"grant insert (relation) on {LEDGER}.detached to {login}".encode()
    )


def read_ledger(session: Connection) -> UnfinishedRestore | None:
    """Return the remains of an unfinished restore; None where there is none.

    :raises RefusedError: there is a schema of this name that is something else.
    """
    if session.execute(f"select to_regnamespace('{LEDGER}')").fetchone() == (None,):
        return None
    try:
        row = session.execute(f"select claim, plan, found from {LEDGER}.restore").fetchone()
    except psycopg.errors.UndefinedTable:
        row = ()
    if row is None:
        raise RefusedError(
            f"the target has the schema {LEDGER} of a restore that is done, which that one could not drop: drop it "
            f"(drop schema {LEDGER} cascade), then start again"
        )
    if not row:
        raise RefusedError(
            f"the target has a schema {LEDGER} that no restore of this release has made: drop it, or restore into "
            "another database"
        )
    with unnoticed(session):
        session.execute(_LOGINS_TABLES.encode())  # an earlier release has made none
    claim = json.loads(row[0])
    claim |= {name: tuple(claim[name]) for name in ("tables", "maps")}
    found = Target(frozenset((kind, schema, name) for kind, schema, name in json.loads(row[2])))
    steps = read_steps(session)
    crashed = session.execute(f"select from {LEDGER}.no_crash").fetchone() is None
    return UnfinishedRestore(TargetClaim(**claim), str(row[1]), found, steps, crashed)


def read_steps(session: Connection) -> Mapping[str, str]:
    """Return the finished steps of the restore and of its login, each with its result."""
    query = "select step, coalesce(result, '') from"
    loaded = session.execute(f"{query} {LEDGER}.loaded".encode()).fetchall()
    return {**dict(loaded), **dict(session.execute(f"{query} {LEDGER}.done".encode()).fetchall())}


def read_result(session: Connection, step: str) -> str:
    """Return the recorded result of a step of the session's own side; "" where there is none."""
    return str(first_value(session, f"select result from {_noted_in(session)} where step = %s", (step,)) or "")


def note_result(session: Connection, step: str, result: str) -> None:
    """Record the result of a step, in the transaction that does it."""
    session.execute(f"update {_noted_in(session)} set result = %s where step = %s".encode(), (result, step))


def note_left_out(session: Connection, step: str, left_out: Iterable[NotRestored]) -> None:
    """Record what a step does not restore, in the transaction that does it."""
    if described := [each.describe() for each in left_out]:
        note_result(session, step, json.dumps(described))


def read_left_out(session: Connection, step: str) -> list[NotRestored]:
    """Return what a step has not restored, also where it was done before."""
    return [NotRestored.from_dict(each) for each in json.loads(read_result(session, step) or "[]")]


def note_step(session: Connection, step: str) -> bool:
    """Note that a step is done; return False where it was before."""
    note = f"insert into {_noted_in(session)} (step) values (%s) on conflict do nothing"
    return session.execute(note.encode(), (step,)).rowcount == 1


def forget_step(session: Connection, step: str) -> bool:
    """Take a note back; return False where there was none."""
    return session.execute(f"delete from {_noted_in(session)} where step = %s".encode(), (step,)).rowcount == 1


def _noted_in(session: Connection) -> str:
    return f"{LEDGER}.{'loaded' if session.info.user.startswith(LOADER) else 'done'}"


def end_ledger(session: Connection) -> None:
    """Mark the restore as done where its schema cannot be dropped: it is neither resumed nor undone then."""
    session.execute(f"delete from {LEDGER}.restore")


def drop_ledger(session: Connection) -> None:
    """Drop the ledger of a restore that is complete, or undone."""
    with unnoticed(session):
        session.execute(f"drop schema {LEDGER} cascade")


@contextmanager
def unnoticed(session: Connection) -> Iterator[None]:
    """Change own objects in one transaction, without the target's event triggers.

    They fire all the same where the role may not turn them off.
    """
    with session.transaction():
        changed = _without_event_triggers(session)
        yield
        for name, value in changed.items():
            session.execute("select pg_catalog.set_config(%s, %s, true)", (name, value))


def _without_event_triggers(session: Connection) -> dict[str, str]:
    """Turn event triggers off in the transaction; return the setting that restores them.

    PostgreSQL 17 has a setting for it; before that, a session that replicates fires none. Both are for superusers.
    """
    for name, value in (("event_triggers", "off"), ("session_replication_role", "replica")):
        try:
            with session.transaction():
                row = session.execute("select pg_catalog.current_setting(%s)", (name,)).fetchone()
                session.execute("select pg_catalog.set_config(%s, %s, true)", (name, value))
        except (psycopg.errors.UndefinedObject, psycopg.errors.InsufficientPrivilege):
            continue
        return {name: str(row[0])} if row else {}
    return {}


@contextmanager
def once(session: Connection, step: str) -> Iterator[bool]:
    """Do a step in one transaction that records it; yield whether it is still to be done.

    A second attempt waits until the transaction of the first one ends, so that they can never both do it.
    """
    with session.transaction():
        yield note_step(session, step)


@contextmanager
def noted(session: Connection) -> Iterator[None]:
    """Record the objects that the block creates: what this transaction wrote and was not there before.

    Other sessions create objects meanwhile, and a new table marks its parents' rows as changed.
    """
    before = {row[:2] for row in session.execute(_OBJECTS)}
    yield
    after = session.execute(f"select class, object from ({_OBJECTS}) o where {_OWN} order by 2").fetchall()
    with session.cursor() as cursor:
        cursor.executemany(
            f"insert into {LEDGER}.created (class, object) values (%s, %s)", [row for row in after if row not in before]
        )


def undo(session: Connection) -> tuple[str, ...]:
    """Drop the objects of an unfinished restore, and nothing else, in one transaction; return them.

    :raises RefusedError: something else uses it by now, or an event trigger refuses it.
    :raises BusyError: it is read or written.
    """
    try:
        with unnoticed(session):
            return _undo(session)
    except psycopg.errors.LockNotAvailable as error:
        raise BusyError(
            "what an unfinished restore left is in use, so that it cannot be dropped "
            f"({' '.join(str(error).split())}): try again when its last session is gone"
        ) from error
    except psycopg.Error as error:
        row = None if session.broken else session.execute(_REFUSING, (error.diag.context or "",)).fetchone()
        if row is None:
            raise
        raise RefusedError(
            f"what an unfinished restore left cannot be dropped, since event trigger {row[0]} of the target refuses it "
            f"({words(error)}): disable it (alter event trigger {row[0]} disable), try again, then enable it"
        ) from error


def _undo(session: Connection) -> tuple[str, ...]:
    dropped: list[str] = []
    session.execute(f"set local lock_timeout = '{LOCK_WAIT}'")
    for table, name in session.execute(_FOREIGN_KEYS).fetchall():
        session.execute(f"alter table {table} drop constraint {name}".encode())
    for (table,) in session.execute(_ASIDE).fetchall():
        session.execute(f"drop table {table}".encode())
    left = session.execute(_LEFT).fetchall()
    while left:
        refused = [(row, error) for row in left if (error := _drop(session, row[2], row[3])) is not None]
        if len(refused) == len(left):
            raise RefusedError(
                f"an unfinished restore left {left[0][2]} {left[0][3]} behind, which cannot be dropped: "
                f"{' '.join(str(refused[0][1]).split())}. Drop what uses it, then try again"
            )
        kept = [row for row, _ in refused]
        dropped += [f"{row[2]} {row[3]}" for row in left if row not in kept]
        left = session.execute(_LEFT).fetchall()
    drop_ledger(session)
    return tuple(dropped)


def _drop(session: Connection, kind: str, identity: str) -> psycopg.Error | None:
    if kind == "user mapping":
        identity = f"for {identity.replace(' on server ', ' server ')}"
    statement = f"drop {kind.replace('-', ' ')} if exists {identity}"
    try:
        with session.transaction():
            session.execute(statement.encode())
    except psycopg.errors.DependentObjectsStillExist as error:
        return error
    return None
