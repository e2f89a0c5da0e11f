"""Existing objects of a database that is restored into."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.session import first_column, session_role

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection

_CLASSES = {
    **dict.fromkeys(("TABLE", "FOREIGN TABLE", "VIEW", "MATERIALIZED VIEW", "SEQUENCE"), "RELATION"),
    **dict.fromkeys(("TYPE", "SHELL TYPE", "DOMAIN"), "TYPE"),
    **dict.fromkeys(("FUNCTION", "PROCEDURE", "AGGREGATE"), "ROUTINE"),
}
"""Kinds of a dump that share their names; every other kind has names of its own."""

# Routines and casts are called as pg_dump calls them.
_QUERY = r"""
with used as (select oid, nspname from pg_catalog.pg_namespace
  where nspname not in ('pg_catalog', 'information_schema') and nspname !~ '^pg_(toast|temp)')
select 'SCHEMA', '', nspname from used
union all select 'RELATION', nspname, relname from pg_catalog.pg_class join used n on n.oid = relnamespace
union all select 'TYPE', nspname, typname from pg_catalog.pg_type join used n on n.oid = typnamespace
union all select 'STATISTICS', nspname, stxname from pg_catalog.pg_statistic_ext join used n on n.oid = stxnamespace
union all select 'COLLATION', nspname, collname from pg_catalog.pg_collation join used n on n.oid = collnamespace
union all select 'CONVERSION', nspname, conname from pg_catalog.pg_conversion join used n on n.oid = connamespace
union all select 'OPERATOR', nspname, oprname from pg_catalog.pg_operator join used n on n.oid = oprnamespace
union all select 'OPERATOR CLASS', nspname, opcname from pg_catalog.pg_opclass join used n on n.oid = opcnamespace
union all select 'OPERATOR FAMILY', nspname, opfname from pg_catalog.pg_opfamily join used n on n.oid = opfnamespace
union all select 'TEXT SEARCH CONFIGURATION', nspname, cfgname
  from pg_catalog.pg_ts_config join used n on n.oid = cfgnamespace
union all select 'TEXT SEARCH DICTIONARY', nspname, dictname
  from pg_catalog.pg_ts_dict join used n on n.oid = dictnamespace
union all select 'TEXT SEARCH PARSER', nspname, prsname
  from pg_catalog.pg_ts_parser join used n on n.oid = prsnamespace
union all select 'TEXT SEARCH TEMPLATE', nspname, tmplname
  from pg_catalog.pg_ts_template join used n on n.oid = tmplnamespace
union all select 'ROUTINE', nspname, proname || '(' || case when prokind = 'a' and pronargs = 0 then '*' else
  (select coalesce(string_agg(pg_catalog.format_type(t.oid, null), ', ' order by place), '')
    from unnest(proargtypes) with ordinality t(oid, place)) end || ')'
  from pg_catalog.pg_proc join used n on n.oid = pronamespace
union all select 'EXTENSION', '', extname from pg_catalog.pg_extension
union all select 'FOREIGN DATA WRAPPER', '', fdwname from pg_catalog.pg_foreign_data_wrapper
union all select 'SERVER', '', srvname from pg_catalog.pg_foreign_server
union all select 'ACCESS METHOD', '', amname from pg_catalog.pg_am
union all select 'PROCEDURAL LANGUAGE', '', lanname from pg_catalog.pg_language
union all select 'CAST', '', format('CAST (%s AS %s)', pg_catalog.format_type(castsource, null),
  pg_catalog.format_type(casttarget, null)) from pg_catalog.pg_cast
"""


@dataclass(frozen=True)
class Target:
    """Existing objects, as (class, schema, name)."""

    objects: frozenset[tuple[str, str, str]] = frozenset()

    def has(self, kind: str, schema: str, name: str) -> bool:
        """Return whether there is an object of a dump's kind with this name."""
        return (_CLASSES.get(kind, kind), schema, name) in self.objects

    def names(self, kind: str, schema: str) -> Collection[str]:
        """Return the names that are taken for a kind in a schema."""
        return self._names.get((_CLASSES.get(kind, kind), schema), frozenset())

    @cached_property
    def _names(self) -> dict[tuple[str, str], set[str]]:
        found: dict[tuple[str, str], set[str]] = {}
        for kind, schema, name in self.objects:
            found.setdefault((kind, schema), set()).add(name)
        return found


def read_target(session: Connection) -> Target:
    """Read the existing objects of the session's database; its search_path is empty."""
    return Target(frozenset((str(kind), str(schema), str(name)) for kind, schema, name in session.execute(_QUERY)))


_USABLE = "select spcname::text from pg_catalog.pg_tablespace where pg_catalog.has_tablespace_privilege(oid, 'create')"


def check_tablespaces(session: Connection, address: Address, names: Sequence[str]) -> None:
    """Refuse tablespaces that the session's role cannot create in."""
    there = first_column(session, _USABLE)
    if missing := [name for name in names if name not in there]:
        raise RefusedError(
            f"{address.url} lacks tablespaces of the backup, or {session_role(session)} may not create in them: "
            f"{', '.join(missing)}. Create them first (CREATE TABLESPACE …), or restore with --tablespaces drop"
        )
