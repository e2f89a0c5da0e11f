"""Creation of objects that run code of a source, with no more rights than their owner's.

A server works out what is constant in the formula of a generated column or in the key of partitions, the bounds of a
partition, the first value of an aggregate, constants of types with a condition, and asks a condition that comes late
of all rows: by functions of the source. `SET ROLE` is no boundary for them. What fills a materialised view is one: it
runs as the view's owner, and nothing in it can change the role. (Source: PostgreSQL's SECURITY_RESTRICTED_OPERATION.)
So such a statement is run by filling one.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.sources.postgresql.catalog.own_objects import LEDGER
from holdfast.sources.postgresql.connection.sql import ident, literal, qualified
from holdfast.sources.postgresql.dump.sqltext import CAST, STRING, chain_at, parse_name, string_value, tokens
from holdfast.sources.postgresql.dump.toc import TABLES
from holdfast.sources.postgresql.restore.plan.progress import unnoticed
from holdfast.sources.postgresql.restore.rights.target_rights import owner_statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from holdfast.sources.postgresql.dump.toc import DumpEntry
    from holdfast.sources.postgresql.restore.plan.plan import RestorePlan

    Connection = psycopg.Connection[tuple[Any, ...]]

_WORKED_OUT = re.compile(r"GENERATED ALWAYS AS \(|PARTITION BY ")

_HAS_BOUNDS_OF_OTHERS = """
select from pg_catalog.pg_partitioned_table p where p.partrelid = pg_catalog.to_regclass(%s) and (
  p.partexprs is not null or exists (
    select from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.oid = a.atttypid
    where a.attrelid = p.partrelid and a.attnum = any(p.partattrs)
      and t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace))
"""
"""Whether the bounds of a table's partitions may be of types that are not PostgreSQL's own."""

_ASKS_A_DOMAIN = """
with recursive inner_types (type) as (
  select t.oid from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
    where n.nspname || '.' || t.typname = any(%s)
  union select part.type from inner_types join pg_catalog.pg_type t on t.oid = inner_types.type cross join lateral (
    select t.typelem where t.typelem <> 0
    union all select t.typbasetype where t.typtype = 'd'
    union all select r.rngsubtype from pg_catalog.pg_range r where t.oid in (r.rngtypid, r.rngmultitypid)
    union all select a.atttypid from pg_catalog.pg_attribute a where a.attrelid = t.typrelid and a.attnum > 0
  ) part (type)
)
select from inner_types join pg_catalog.pg_constraint c on c.contypid = type limit 1
"""
"""Whether there are conditions of domains in types: a constant of such a type is read when its statement is."""

_CASTING = """
with recursive types (type) as (
  select atttypid from pg_catalog.pg_attribute where attrelid = pg_catalog.to_regclass(%s) and attnum > 0
  union select t.typbasetype from types join pg_catalog.pg_type t on t.oid = type and t.typtype = 'd'
)
select from types join pg_catalog.pg_cast c on c.castsource = type and c.castcontext = 'i'
join pg_catalog.pg_proc p on p.oid = c.castfunc where p.pronamespace <> 'pg_catalog'::pg_catalog.regnamespace limit 1
"""
"""Whether columns of a table may be cast by functions of the source."""

_BEGIN = f"""
create function {LEDGER}.run() returns bool language plpgsql
  as $$ begin execute pg_catalog.current_setting('holdfast.statement'); return true; end $$;
create materialized view {LEDGER}.running as select {LEDGER}.run() with no data;
grant execute on function {LEDGER}.run() to {{role}};
alter materialized view {LEDGER}.running owner to {{role}}
"""

_END = f"drop materialized view {LEDGER}.running; drop function {LEDGER}.run()"

_IS_ORDINARY = """
select count(*), bool_and(pg_catalog.pg_has_role(%(login)s, owner, 'MEMBER'))
from pg_catalog.unnest(%(owners)s::name[]) owner
"""

_LACKING = """
select pg_catalog.format('usage on schema %%I', nspname) from pg_catalog.pg_namespace
where nspname = any(%(named)s) and not pg_catalog.has_schema_privilege(%(role)s, oid, 'USAGE')
union all select pg_catalog.format('create on schema %%I', nspname) from pg_catalog.pg_namespace
where nspname = %(schema)s and not pg_catalog.has_schema_privilege(%(role)s, oid, 'CREATE')
union all select pg_catalog.format('create on tablespace %%I', spcname) from pg_catalog.pg_tablespace
where spcname = pg_catalog.current_setting('default_tablespace')
  and not pg_catalog.has_tablespace_privilege(%(role)s, oid, 'CREATE')
union all select pg_catalog.format('usage on foreign server %%I', srvname) from pg_catalog.pg_foreign_server
where srvname = any(%(named)s) and not pg_catalog.has_server_privilege(%(role)s, oid, 'USAGE')
"""


def runs_code(session: Connection, entry: DumpEntry) -> bool:
    """Return whether creating an entry may run functions of the source."""
    if entry.kind == "CHECK CONSTRAINT" or (entry.kind == "AGGREGATE" and "INITCOND" in entry.sql):
        return True
    if entry.kind == "TABLE ATTACH":
        return session.execute(_HAS_BOUNDS_OF_OTHERS, (qualified(*_main(entry)),)).fetchone() is not None
    if entry.kind in TABLES and _WORKED_OUT.search(entry.sql) and set(_chains(entry.sql)) - {_main(entry)}:
        return True
    types = [".".join(chain) for chain in _types_of_constants(entry.sql)]
    return bool(types) and session.execute(_ASKS_A_DOMAIN, (types,)).fetchone() is not None


def is_compared_by_code(session: Connection, key: DumpEntry) -> bool:
    """Return whether functions of the source may compare a foreign key's columns.

    They would run as the role that creates the key.
    """
    return session.execute(_CASTING, (qualified(*_main(key)),)).fetchone() is not None


def run_as_owner(session: Connection, plan: RestorePlan, entry: DumpEntry) -> None:
    """Create an entry as its owner, in the session's transaction.

    What is of several owners is created as the log-in that is a member of them.

    :param session: a superuser's, with the entry's settings.
    """
    sql = plan.sql_of(entry)
    given = [statement for statement, _ in owner_statements(sql)]
    for statement in given:
        sql = sql.replace(statement, "", 1)
    role = _role(session, plan, entry)
    with _lent(session, role, entry):
        with unnoticed(session):
            session.execute(_BEGIN.format(role=ident(role)).encode())
        setting = f"select pg_catalog.set_config('holdfast.statement', {literal(sql)}, true)"
        session.execute(setting.encode("utf-8", "surrogateescape"))
        session.execute(f"refresh materialized view {LEDGER}.running")
        with unnoticed(session):
            session.execute(_END)
    for statement in given:
        session.execute(statement.encode("utf-8", "surrogateescape"))


def _role(session: Connection, plan: RestorePlan, entry: DumpEntry) -> str:
    owners = {owner for _, owner in owner_statements(plan.sql_of(entry))}
    if entry.kind in TABLES or not owners:  # what a table inherits from, or what something belongs to
        above = (other for each in entry.needs if (other := plan.by_id.get(each)) is not None and other.is_relation)
        owners |= {owner for each in above for _, owner in owner_statements(plan.sql_of(each))}
    asked = {"login": plan.login, "owners": [*owners]}
    return owners.pop() if session.execute(_IS_ORDINARY, asked).fetchone() == (1, True) else plan.login


@contextmanager
def _lent(session: Connection, role: str, entry: DumpEntry) -> Iterator[None]:
    """Lend a role the rights that it lacks to create an entry.

    Perhaps a superuser of the source has created it.
    """
    named = {name for chain in (*_chains(entry.sql), *_in_strings(entry.sql)) for name in chain[:1]}
    named |= {token.identifier for token in tokens(entry.sql) if entry.kind == "FOREIGN TABLE" and token.is_identifier}
    asked = {"named": sorted(named), "role": role, "schema": _main(entry)[0]}
    lacking = [right for (right,) in session.execute(_LACKING, asked).fetchall()]
    for right in lacking:
        session.execute(f"grant {right} to {ident(role)}".encode())
    yield
    for right in lacking:
        session.execute(f"revoke {right} from {ident(role)}".encode())


def _main(entry: DumpEntry) -> tuple[str, str]:
    """Return the name of the object that an entry creates or alters.

    It is the name in the target, and comes first in the SQL.
    """
    schema, name = next(_chains(entry.sql))[:2]
    return schema, name


def _chains(sql: str) -> Iterator[tuple[str, ...]]:
    found = list(tokens(sql))
    return (chain for place in range(len(found)) if len(chain := chain_at(found, place)) > 1)


def _in_strings(sql: str) -> Iterator[tuple[str, ...]]:
    """Yield the names that strings may be.

    One is that of a sequence, in a default that asks it for its next value.
    """
    for token in tokens(sql):
        if token.kind == STRING and (text := string_value(token)) is not None:
            yield parse_name(text)


def _types_of_constants(sql: str) -> set[tuple[str, ...]]:
    """Return the types of constants, without PostgreSQL's own.

    The names of those need no schema.
    """
    if "'::" not in sql:
        return set()
    found = list(tokens(sql))
    casts = (
        place for place in range(1, len(found) - 1) if found[place].kind == CAST and found[place - 1].kind == STRING
    )
    return {chain for place in casts if len(chain := chain_at(found, place + 1)) > 1}
