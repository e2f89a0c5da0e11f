"""Logins without superuser rights, for sessions that run code of a source; sessions of ours are a superuser's.

Neither SET ROLE nor SET SESSION AUTHORIZATION keeps code from a superuser's rights: it resets them. Nor does a list of
statements that run code: the planner runs functions of the tables in a statement. A session that has logged in without
these rights cannot get them, so the login of a restore builds everything, and owns it until the end.
"""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg

from holdfast.common.cleanup import cleanup
from holdfast.common.errors import HoldfastError, RefusedError
from holdfast.common.words import named
from holdfast.postgresql.catalog.own_objects import LEDGER, LOADER
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.sql import ident, literal
from holdfast.postgresql.restore.plan.ledger import keep, let_write, read_kept

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from holdfast.postgresql.catalog.roles import Roles
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection

_GONE = """
select rolname::text from pg_catalog.pg_roles r where rolname ~ %s and not rolsuper and not exists (
  select from pg_catalog.pg_database d where d.oid::text = pg_catalog.split_part(rolname, '_', 3))
"""

_DATABASE = "select oid::text from pg_catalog.pg_database where datname = pg_catalog.current_database()"

_OWNS = """
select from pg_catalog.pg_shdepend d join pg_catalog.pg_roles r on r.oid = d.refobjid
where d.refclassid = 'pg_catalog.pg_authid'::regclass and d.deptype = 'o' and r.rolname = %s
"""

_SUPERUSERS = "select rolname::text from pg_catalog.pg_roles where rolsuper and rolname = any(%s)"

_POWERFUL = """
select r.rolname::text, r.rolsuper or r.rolbypassrls
from pg_catalog.pg_roles r where r.rolname = any(%s) and exists (
  select from pg_catalog.pg_roles d where pg_catalog.pg_has_role(r.oid, d.oid, 'MEMBER') and (
    d.rolsuper or d.rolcreaterole or d.rolcreatedb or d.rolreplication or d.rolbypassrls
    or (d.rolname ~ '^pg_' and d.rolname <> 'pg_database_owner')))
"""
"""Those of these roles that may do more than own things in databases, also by their memberships."""

_STANDING = "select rolname::text from pg_catalog.pg_roles where rolname ~ %s"
"""Roles that stand in for owners (`hand_over`)."""

_EXISTS = "select from pg_catalog.pg_roles where rolname = %s"

_VERIFIER = "select rolpassword from pg_catalog.pg_authid where rolname = %s"

_SESSIONS = """
select pg_catalog.pg_terminate_backend(s.pid, 10000) from pg_catalog.pg_stat_activity s
join pg_catalog.pg_roles r on r.oid = s.usesysid where r.rolname = %s
"""

_KEPT = "password of the login"

_SETTINGS = {
    **dict.fromkeys(("transaction_timeout", "idle_session_timeout"), "0"),
    "check_function_bodies": "off",
    "client_min_messages": "warning",
    "event_triggers": "on",
}
"""Settings of a login's sessions, beside those of all sessions, in versions that know them."""

_TRIES = 20
_PAUSE_S = 0.1


@contextmanager
def temporary_login(session: Connection, address: Address, *, is_quiet: bool = True) -> Iterator[Address]:
    """Provide a temporary login for a database, and yield the address for it.

    Only this process and its tasks know its password. Where objects belong to it, or notes name it, it stays, and can
    log in no more; the next one for this database takes them over.

    :param is_quiet: the database's own event triggers do not act on what the login does.
    :raises RefusedError: it may not log in; says what to do.
    """
    for (name,) in session.execute(_GONE, (f"^{LOADER}_[0-9]+(_[0-9]+|_owner)?$",)).fetchall():
        with suppress(psycopg.errors.DependentObjectsStillExist, psycopg.errors.UndefinedObject):
            _is_dropped(session, name)
    session.execute(_SESSIONS, (login_name(session),))  # of a try that was killed
    with cleanup(lambda: _lock_out(address)):
        login = _make(session, address, login_name(session), is_quiet=is_quiet)
        _try(session, address, login)
        yield login


@contextmanager
def asking_login(address: Address) -> Iterator[Address]:
    """Yield an address for queries of a restored database, never with a superuser's rights."""
    with connect(address) as session:
        if session.info.parameter_status("is_superuser") != "on":
            yield address
            return
        with temporary_login(session, address) as login:
            session.execute(f"grant pg_read_all_data to {login.user}".encode())
            session.execute(f"alter role {login.user} bypassrls".encode())
            yield login


@contextmanager
def owners_login(session: Connection, address: Address, owner: str) -> Iterator[Address]:
    """Yield the address of a temporary login with the rights of one owner."""
    name = f"{login_name(session)}_owner"
    try:
        login = _make(session, address, name)
        session.execute(f"grant {ident(owner)} to {name}".encode())
        let_write(session, name)
        yield login
    finally:
        session.execute(_SESSIONS, (name,))
        _is_dropped(session, name)


def powers(session: Connection, owners: Collection[str]) -> Mapping[str, bool]:
    """Return roles that may do more than own things, with whether policies bind them not."""
    return dict(session.execute(_POWERFUL, (list(owners),)).fetchall())


def check_namesakes(session: Connection, owners: Collection[str], recorded: Roles | None) -> None:
    """Refuse superusers of the target with the names of ordinary roles, who would get their objects."""
    ordinary = {role.name for role in recorded.roles if not role.superuser} if recorded else set()
    found = session.execute(_SUPERUSERS, (sorted(ordinary.intersection(owners)),)).fetchall()
    if found:
        raise RefusedError(
            f"superusers here, and ordinary roles in the source: {named([name for (name,) in found])}. Functions of "
            "theirs would run with a superuser's rights from now on: restore them under other owners, or say "
            "--trust-source where these may do what a superuser may here"
        )


def drop_login(session: Connection) -> str:
    """Drop the login of a database; return its name where it stays, locked out, since it owns things."""
    name = login_name(session)
    for (standing,) in session.execute(_STANDING, (f"^{name}_([0-9]+|owner)$",)).fetchall():
        _is_dropped(session, standing)
    if session.execute(_EXISTS, (name,)).fetchone() is None:
        return ""
    session.execute(f"alter role {name} nologin password null".encode())
    return "" if _is_dropped(session, name) else name


def _is_dropped(session: Connection, name: str) -> bool:
    """Drop a role that owns nothing; return False where it owns something."""
    if session.execute(_OWNS, (name,)).fetchone() is not None:
        return False
    _of_all_databases(session, f"drop owned by {name}")  # nothing but its privileges
    _of_all_databases(session, f"drop role {name}")
    return True


def _of_all_databases(session: Connection, statement: str) -> None:
    """Run a statement on shared objects; repeat it after a conflict with a restore elsewhere."""
    for left in reversed(range(_TRIES)):
        try:
            session.execute(statement.encode())
            return
        except (psycopg.errors.UniqueViolation, psycopg.errors.InternalError_):
            if not left:
                raise
            time.sleep(_PAUSE_S)


def login_name(session: Connection) -> str:
    row = session.execute(_DATABASE).fetchone()
    return f"{LOADER}_{row[0] if row else 0}"


def _lock_out(address: Address) -> None:
    """Lock the login out, and drop it unless notes of an unfinished restore name it."""
    with connect(address) as session:
        is_begun = session.execute(f"select pg_catalog.to_regclass('{LEDGER}.detached')").fetchone() != (None,)
        if is_begun and session.execute(f"select from {LEDGER}.detached limit 1").fetchone() is not None:
            session.execute(f"alter role {login_name(session)} nologin password null".encode())
        else:
            drop_login(session)


def _make(session: Connection, address: Address, name: str, *, is_quiet: bool = True) -> Address:
    """Make a login, or give it another password, of which the server is sent only a verifier."""
    password = secrets.token_urlsafe(24)
    check = session.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    if session.execute(_EXISTS, (name,)).fetchone() is None:
        session.execute(f"create role {name}".encode())
    harmless = "login inherit nosuperuser nocreatedb nocreaterole noreplication nobypassrls"
    session.execute(f"alter role {name} {harmless} password {literal(check)}".encode())
    # In a replica, only those event triggers fire that always do, such as the guard.
    settings = {**_SETTINGS, "session_replication_role": "replica" if is_quiet else "origin"}
    known = session.execute("select name from pg_catalog.pg_settings where name = any(%s)", ([*settings],))
    for (setting,) in known.fetchall():
        session.execute(f"alter role {name} set {setting} = {settings[setting]}".encode())
    session.execute(f"grant connect on database {ident(address.database)} to {name}".encode())
    return replace(address.as_user(name, password), event_triggers=True)


def keep_password(session: Connection) -> None:
    """Note the login's password, which code that runs as the login may change."""
    row = session.execute(_VERIFIER, (login_name(session),)).fetchone()
    keep(session, _KEPT, str(row[0]) if row and row[0] else "")


def check_password(session: Connection) -> None:
    """Refuse to go on where code of the source has changed the login's password: others may know it."""
    kept, row = read_kept(session, _KEPT), session.execute(_VERIFIER, (login_name(session),)).fetchone()
    if kept and row and row[0] is not None and row[0] != kept:
        raise RefusedError(
            f"code of the source has changed the password of {login_name(session)}, by which it was restored, so that "
            "others may have changed what is there: drop the database, and find out who wrote that code"
        )


def lock_out(session: Connection) -> None:
    """Lock the login out and end its sessions: no code of the source runs from then on."""
    name = login_name(session)
    session.execute(f"alter role {name} nologin".encode())
    session.execute(_SESSIONS, (name,))
    check_password(session)


def _try(session: Connection, address: Address, login: Address) -> None:
    try:
        with connect(login):
            return
    except HoldfastError as error:
        raise RefusedError(
            f"a restore runs code of the source (conditions, generated columns), and {session.info.user} is a "
            f"superuser of {address.url}, whose rights it would have. It made a log-in without them for that, "
            f"{login.user}, which may not connect ({error}). Let that in by its password (pg_hba.conf), restore as a "
            "role that is no superuser, or say --trust-source where owners in the source may do what a superuser may "
            "here"
        ) from error
