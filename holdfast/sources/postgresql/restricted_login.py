"""A log-in that loads and asks for a superuser, and has no right beyond the database.

A table's conditions and generated columns call functions of its owner, which run as whoever loads; so does what a view
calls, as whoever asks. Neither SET ROLE
nor SET SESSION AUTHORIZATION keeps one from a superuser's rights: the function resets them. A session that has logged
in without them cannot get them. (What builds indexes, refreshes views and gathers statistics runs as the owner, and may
not change that. Source: PostgreSQL's SECURITY_RESTRICTED_OPERATION.)
"""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from holdfast.sources.postgresql.sql import ident, literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from holdfast.sources.postgresql.address import Address

    Connection = psycopg.Connection[tuple[Any, ...]]

_LOADER = "holdfast_loader"

_OWNERS = "select rolname from pg_catalog.pg_roles where not rolsuper and rolname !~ '^pg_' and rolname <> %s"


def make_loader(session: Connection, address: Address, schemas: Sequence[str] = ()) -> Address:
    """Make the log-in, or give it another password, and return the same database's address for it.

    It is a member of all roles that are there, so that it may do what any owner may.

    :param session: a superuser's, in the database, on a server that is gone afterwards.
    :param schemas: in which it may create something, too.
    """
    password = secrets.token_urlsafe(24)
    if session.execute("select from pg_catalog.pg_roles where rolname = %s", (_LOADER,)).fetchone() is None:
        session.execute(f"create role {_LOADER}".encode())
    session.execute(f"alter role {_LOADER} login nosuperuser bypassrls password {literal(password)}".encode())
    owners = [row[0] for row in session.execute(_OWNERS, (_LOADER,))]
    for role in (*owners, "pg_read_all_data", "pg_write_all_data"):
        session.execute(f"grant {ident(role)} to {_LOADER}".encode())
    for schema in schemas:
        session.execute(f"grant create, usage on schema {ident(schema)} to {_LOADER}".encode())
    user = urlsplit(address.url).netloc.rpartition("@")[0]
    url = re.sub(rf"://{re.escape(user)}@", f"://{_LOADER}@", address.url, count=1)
    return replace(address, url=url, password=password, event_triggers=True)
