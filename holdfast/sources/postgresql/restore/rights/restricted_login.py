"""Log-ins without superuser rights, for sessions that run code of a source.

A table's conditions and generated columns call functions of its owner, which run as whoever loads; so does what a view
calls, as whoever asks. Neither SET ROLE nor SET SESSION AUTHORIZATION keeps one from a superuser's rights: the function
resets them. A session that has logged in without them cannot get them. (What builds indexes, refreshes views and
gathers statistics runs as the owner. Source: PostgreSQL's SECURITY_RESTRICTED_OPERATION.)
"""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg

from holdfast.common.cleanup import tidied
from holdfast.common.errors import HoldfastError, RefusedError
from holdfast.sources.postgresql.catalog.own_objects import LEDGER, LOADER
from holdfast.sources.postgresql.connection.session import connect
from holdfast.sources.postgresql.connection.sql import ident, literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.sources.postgresql.connection.address import Address

    Connection = psycopg.Connection[tuple[Any, ...]]

_OWNERS = "select rolname from pg_catalog.pg_roles where not rolsuper and rolname !~ '^pg_' and rolname <> %s"

_GONE = """
select rolname::text from pg_catalog.pg_roles r where rolname ~ %s and not rolsuper and not exists (
  select from pg_catalog.pg_database d where d.oid::text = pg_catalog.split_part(rolname, '_', 3))
"""
"""Log-ins for databases that have been dropped since."""

_DATABASE = "select oid::text from pg_catalog.pg_database where datname = pg_catalog.current_database()"

_OWNS = """
select from pg_catalog.pg_shdepend d join pg_catalog.pg_roles r on r.oid = d.refobjid
where d.refclassid = 'pg_catalog.pg_authid'::regclass and d.deptype = 'o' and r.rolname = %s
"""

_EXISTS = "select from pg_catalog.pg_roles where rolname = %s"

_TRIES = 20
_PAUSE_S = 0.1

_EVENT_TRIGGERS_SETTING = 170000
"""The first version in which a session can be without event triggers."""


def make_loader(session: Connection, address: Address, schemas: Sequence[str] = ()) -> Address:
    """Make a log-in for a temporary server, and return the database's address for it.

    It is a member of all roles that are there, so that it may do what any owner may.

    :param session: a superuser's, in the database.
    :param schemas: in which it may create something, too.
    """
    loader = _make(session, address, LOADER, "bypassrls")
    owners = [row[0] for row in session.execute(_OWNERS, (LOADER,))]
    for role in (*owners, "pg_read_all_data", "pg_write_all_data"):
        session.execute(f"grant {ident(role)} to {LOADER}".encode())
    for schema in schemas:
        session.execute(f"grant create, usage on schema {ident(schema)} to {LOADER}".encode())
    return replace(loader, event_triggers=True)


@contextmanager
def temporary_login(session: Connection, address: Address) -> Iterator[Address]:
    """Provide a temporary log-in for a database, and yield the address for it.

    Nobody but this process and its tasks knows its password. Where things belong to it, or notes name it, it stays, and
    can log in no more; the next one for this database takes them over.

    :param session: a superuser's, in the database, whom no other of these is made beside.
    :raises RefusedError: it may not log in; says what to do.
    """
    name = _name(session)
    _sweep(session)
    with tidied(lambda: _lock_out(address)):
        login = _make(session, address, name, "nobypassrls")
        if not address.event_triggers and session.info.server_version >= _EVENT_TRIGGERS_SETTING:
            _of_all_databases(session, f"grant set on parameter event_triggers to {name}")
        _try(session, address, login)
        yield login


@contextmanager
def asking_login(address: Address) -> Iterator[Address]:
    """Yield an address for queries of a restored database.

    Its sessions never have a superuser's rights.
    """
    with connect(address) as session:
        if session.info.parameter_status("is_superuser") != "on":
            yield address
            return
        with temporary_login(session, address) as login:
            session.execute(f"grant pg_read_all_data to {login.user}".encode())
            session.execute(f"alter role {login.user} bypassrls".encode())
            yield login


def drop_login(session: Connection) -> str:
    """Drop the log-in that loads into a database, if there is one.

    Returns its name where things belong to it: it then stays, and cannot log in.

    :param session: a superuser's, in the database.
    """
    name = _name(session)
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
    """Run a statement on objects of the whole server, and repeat it after a conflict.

    Restores into other databases change the same objects, and a server lets one of them fail.
    """
    for left in reversed(range(_TRIES)):
        try:
            session.execute(statement.encode())
            return
        except (psycopg.errors.UniqueViolation, psycopg.errors.InternalError_):
            if not left:
                raise
            time.sleep(_PAUSE_S)


def _name(session: Connection) -> str:
    row = session.execute(_DATABASE).fetchone()
    return f"{LOADER}_{row[0] if row else 0}"


def _lock_out(address: Address) -> None:
    """Bar a log-in from logging in, and drop it where nothing is to be undone.

    It stays where notes of an unfinished restore name it: that may be undone yet.
    """
    with connect(address) as session:
        is_begun = session.execute(f"select pg_catalog.to_regclass('{LEDGER}.detached')").fetchone() != (None,)
        if is_begun and session.execute(f"select from {LEDGER}.detached limit 1").fetchone() is not None:
            session.execute(f"alter role {_name(session)} nologin password null".encode())
        else:
            drop_login(session)


def _make(session: Connection, address: Address, name: str, more: str) -> Address:
    """Make a log-in, or give it another password.

    The server is sent only a verifier of the password.
    """
    password = secrets.token_urlsafe(24)
    check = session.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    if session.execute(_EXISTS, (name,)).fetchone() is None:
        session.execute(f"create role {name}".encode())
    harmless = "login inherit nosuperuser nocreatedb nocreaterole noreplication"
    session.execute(f"alter role {name} {harmless} {more} password {literal(check)}".encode())
    session.execute(f"grant connect on database {ident(address.database)} to {name}".encode())
    return address.as_user(name, password)


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


def _sweep(session: Connection) -> None:
    for (name,) in session.execute(_GONE, (f"^{LOADER}_[0-9]+$",)).fetchall():
        with suppress(psycopg.errors.DependentObjectsStillExist, psycopg.errors.UndefinedObject):
            _is_dropped(session, name)
