"""Objects of a log-in while rows come in: recorded, and compared before hand-over.

They must be the same when they are given to others: superusers, above all.

Code of the source runs as that log-in, and may do all to it that an owner may: write another text for a function that
is called with its owner's rights from then on, add a trigger or a rule to a table, or grant rights to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.common.errors import RefusedError
from holdfast.common.words import named
from holdfast.sources.postgresql.catalog.own_objects import LEDGER
from holdfast.sources.postgresql.restore.plan.progress import once
from holdfast.sources.postgresql.restore.rights.search_paths import LENT

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

_STEP = "what belongs to the log-in"

# What stays may neither go nor change. What may go, and come back, are conditions that rows break, formulas, bounds.
# A search_path is lent to functions, and is looked at when it has been given back.
_NOW = f"""
with login as (
  select oid from pg_catalog.pg_roles where rolname = %(login)s
), relations as (
  select c.* from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace, login
  where c.relowner = login.oid and n.nspname <> '{LEDGER}' and n.nspname !~ '^pg_(toast|temp)'
), domains as (
  select t.* from pg_catalog.pg_type t, login
  where t.typowner = login.oid and t.typtype = 'd' and t.typnamespace <> '{LEDGER}'::regnamespace
), routines as (
  select p.* from pg_catalog.pg_proc p, login
  where p.proowner = login.oid and p.pronamespace <> '{LEDGER}'::regnamespace
)
select 'stays' as kind, oid::regprocedure::text as name, (pg_catalog.to_jsonb(p) - 'proconfig')::text as line
from routines p
union all select case when s like 'search_path=%%' then 'path' else 'stays' end, oid::regprocedure::text,
  pg_catalog.concat_ws(' ', oid, s) from routines, pg_catalog.unnest(proconfig) s
union all select 'stays', oid::regclass::text,
  pg_catalog.concat_ws(' ', oid, relkind, relnamespace, relname, relacl, reloptions) from relations
union all select 'stays', oid::regtype::text,
  pg_catalog.concat_ws(' ', oid, typnamespace, typname, typacl, typbasetype, typdefault) from domains
union all select 'goes', c.oid::regclass::text,
  pg_catalog.concat_ws(' ', c.oid, a.attnum, a.attname, a.atttypid, a.attacl) from relations c
  join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
union all select 'goes', c.oid::regclass::text, pg_catalog.concat_ws(' ', c.oid, d.adnum, d.adbin) from relations c
  join pg_catalog.pg_attrdef d on d.adrelid = c.oid
union all select 'goes', coalesce(c.oid::regclass::text, t.oid::regtype::text), pg_catalog.concat_ws(' ', c.oid, t.oid,
    k.conname, pg_catalog.replace(pg_catalog.pg_get_constraintdef(k.oid), ' NOT VALID', ''))
  from pg_catalog.pg_constraint k left join relations c on c.oid = k.conrelid left join domains t on t.oid = k.contypid
  where c.oid is not null or t.oid is not null
union all select 'goes', c.oid::regclass::text, pg_catalog.concat_ws(' ', r.oid, r.ev_action, r.ev_qual)
  from relations c join pg_catalog.pg_rewrite r on r.ev_class = c.oid
union all select 'goes', c.oid::regclass::text, pg_catalog.concat_ws(' ', t.oid, t.tgname) from relations c
  join pg_catalog.pg_trigger t on t.tgrelid = c.oid
union all select 'goes', c.oid::regclass::text, pg_catalog.concat_ws(' ', p.oid, p.polname) from relations c
  join pg_catalog.pg_policy p on p.polrelid = c.oid
union all select 'goes', c.oid::regclass::text, pg_catalog.concat_ws(' ', s.oid, s.stxname) from relations c
  join pg_catalog.pg_statistic_ext s on s.stxrelid = c.oid
union all select 'goes', c.oid::regclass::text, pg_catalog.concat_ws(' ', i.inhrelid, i.inhparent) from relations c
  join pg_catalog.pg_inherits i on c.oid in (i.inhrelid, i.inhparent)
"""

# Some had to have one already when tables were created.
_LENT = f"""
delete from {LEDGER}.held h using {LEDGER}.done d where h.kind = 'path' and d.step = '{LENT}' || h.name
"""

_OTHER = f"""
with now as ({_NOW})
select name from (
  (select kind, name, line from now where (kind = 'path') = %(built)s except select kind, name, line from {LEDGER}.held)
  union all (select kind, name, line from {LEDGER}.held where kind = 'stays' or (kind = 'path' and %(built)s)
    except select kind, name, line from now)
) changed group by name order by name
"""

_SESSIONS = """
select pg_catalog.pg_terminate_backend(s.pid, 10000) from pg_catalog.pg_stat_activity s
join pg_catalog.pg_roles r on r.oid = s.usesysid where r.rolname = %s
"""


def note_held(session: Connection, login: str) -> None:
    """Record the objects that belong to a log-in.

    This comes before any code of the source can run as the log-in.
    """
    with once(session, _STEP) as is_new:
        if is_new:
            session.execute(f"insert into {LEDGER}.held {_NOW}".encode(), {"login": login})
            session.execute(_LENT)


def check_unchanged(session: Connection, login: str, *, is_built: bool = False) -> None:
    """Refuse changed objects of a log-in.

    Its sessions end: one of a task may be left over.

    :param session: a superuser's.
    :param is_built: there is more by now that the restore has made, and the search_paths of functions are their own.
    :raises RefusedError: something has.
    """
    session.execute(_SESSIONS, (login,))
    found = session.execute(_OTHER, {"login": login, "built": is_built}).fetchall()
    if found:
        raise RefusedError(
            f"code of the source has changed what it was given to load, or has made more of it: "
            f"{named([name for (name,) in found])}. It would belong to others from now on, and have their rights: "
            "drop what was restored, and find out who wrote that code"
        )
