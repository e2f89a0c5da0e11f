"""Rights that a superuser's session lends to the login that builds, in a closed target."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from holdfast.postgresql.catalog.own_objects import LEDGER
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.dump.sql_tokens import chain_at, chains, tokens
from holdfast.postgresql.restore.plan.ledger import keep, read_kept
from holdfast.postgresql.restore.plan.stages import FOREIGN_KEY
from holdfast.postgresql.restore.rights.target_rights import has_words, owner_statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.dump.dump_entries import DumpEntry
    from holdfast.postgresql.restore.plan.plan import RestorePlan

_CLOSED: Final = "privileges of the database"

_PLACES = f"""
select pg_catalog.format('grant create, usage on schema %%I to %%I', nspname, %(login)s::text)
from pg_catalog.pg_namespace where nspname !~ '^pg_' and nspname not in ('information_schema', '{LEDGER}')
  and (nspname = any(%(named)s) or not %(beside)s)
union all select pg_catalog.format('grant create, temporary on database %%I to %%I', current_catalog, %(login)s::text)
union all select pg_catalog.format('grant create on tablespace %%I to %%I', spcname, %(login)s::text)
from pg_catalog.pg_tablespace where spcname = any(%(tablespaces)s)
"""

_OF_EXTENSIONS = """
select pg_catalog.format('grant usage on foreign data wrapper %%I to %%I', fdwname, %(login)s::text)
from pg_catalog.pg_foreign_data_wrapper where not pg_catalog.has_foreign_data_wrapper_privilege(%(login)s, oid, 'usage')
union all select pg_catalog.format('grant usage on foreign server %%I to %%I', srvname, %(login)s::text)
from pg_catalog.pg_foreign_server where not pg_catalog.has_server_privilege(%(login)s, oid, 'usage')
union all select pg_catalog.format('grant usage on schema %%I to %%I', n.nspname, %(login)s::text)
from pg_catalog.pg_namespace n join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_namespace'::regclass
  and d.objid = n.oid and d.deptype = 'e' where not pg_catalog.has_schema_privilege(%(login)s, n.oid, 'usage')
"""

_REFERENCES = """
select pg_catalog.format('grant references on %%s to %%I', c.oid::regclass, %(login)s::text)
from pg_catalog.pg_class c where c.oid = pg_catalog.to_regclass(%(table)s)
  and (exists (select from pg_catalog.pg_roles r where r.rolname = %(owner)s
      and pg_catalog.has_table_privilege(r.oid, c.oid, 'references'))
    or exists (select from pg_catalog.pg_depend d where d.classid = 'pg_catalog.pg_class'::regclass
      and d.objid = c.oid and d.deptype = 'e'))
"""

_GRANTED = """
select case a.grantee when 0 then '' else pg_catalog.pg_get_userbyid(a.grantee)::text end, a.privilege_type::text,
  a.is_grantable
from pg_catalog.pg_database d, pg_catalog.aclexplode(coalesce(d.datacl, pg_catalog.acldefault('d', d.datdba))) a
where d.datname = pg_catalog.current_database() and a.grantee <> d.datdba
"""

_STRANGERS = """
select pg_catalog.pg_terminate_backend(s.pid, 10000) from pg_catalog.pg_stat_activity s
join pg_catalog.pg_roles r on r.oid = s.usesysid
where s.datname = pg_catalog.current_database() and s.pid <> pg_catalog.pg_backend_pid() and not r.rolsuper
"""


def lend_rights(session: Connection, plan: RestorePlan) -> None:
    """Let the login create what a plan has."""
    named = {chain[0] for entry in plan.entries for chain in chains(entry.sql)} if plan.beside else set()
    asked = {
        "login": plan.login,
        "named": sorted(named),
        "beside": plan.beside,
        "tablespaces": list(plan.tablespaces),
    }
    _grant(session, _PLACES, asked)


def lend_extensions(session: Connection, login: str) -> None:
    """Let the login use schemas, foreign-data wrappers and servers of extensions."""
    _grant(session, _OF_EXTENSIONS, {"login": login})


def lend_references(session: Connection, plan: RestorePlan) -> None:
    """Let the login refer to tables of extensions, and to those that owners of its keys may refer to."""
    for entry in plan.entries:
        if entry.kind == FOREIGN_KEY and (table := referred(entry)) not in plan.table_names:
            _grant(session, _REFERENCES, {"login": plan.login, "owner": _owner(plan, entry), "table": table})


def by_period(plan: RestorePlan) -> Iterator[str]:
    """Yield the tables that foreign keys with a PERIOD lead to."""
    return (referred(entry) for entry in plan.entries if entry.kind == FOREIGN_KEY and has_words(entry.sql, "PERIOD"))


def close_database(session: Connection, login: str) -> None:
    """Let the login alone enter a database, and end others' sessions.

    :param session: a superuser's; superusers are not kept out.
    """
    name = _database(session)
    if not read_kept(session, _CLOSED):
        keep(session, _CLOSED, json.dumps(session.execute(_GRANTED).fetchall()))
    granted = json.loads(read_kept(session, _CLOSED))
    for grantee in dict.fromkeys(grantee for grantee, _, _ in granted):
        session.execute(f"revoke all on database {name} from {ident(grantee) if grantee else 'public'}".encode())
    session.execute(f"grant connect on database {name} to {login}".encode())
    session.execute(_STRANGERS)


def open_database(session: Connection) -> None:
    """Give the privileges of a closed database back."""
    for grantee, privilege, is_grantable in json.loads(read_kept(session, _CLOSED) or "[]"):
        option = " with grant option" if is_grantable else ""
        to = ident(grantee) if grantee else "public"
        session.execute(f"grant {privilege} on database {_database(session)} to {to}{option}".encode())


def _database(session: Connection) -> str:
    return ident(session.info.dbname)


def _grant(session: Connection, query: str, asked: dict[str, Any]) -> None:
    for (statement,) in session.execute(query.encode(), asked).fetchall():
        session.execute(statement.encode())


def _owner(plan: RestorePlan, key: DumpEntry) -> str:
    tables = (plan.by_id[need] for need in key.needs if need in plan.by_id and plan.by_id[need].is_relation)
    return next((owner for table in tables for _, owner in owner_statements(table.sql)), "")


def referred(key: DumpEntry) -> str:
    """Return the table that a foreign key leads to, as the server writes it."""
    found = list(tokens(key.sql))
    for place, token in enumerate(found):
        if token.word == "REFERENCES":
            chain = next(filter(None, (chain_at(found, each) for each in range(place + 1, len(found)))), ())
            return ".".join(map(ident, chain))
    return ""
