"""Rights in each schema of a database, for a role that is not to read everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.postgresql.catalog.catalog_queries import NO_EXTENSION, USER_SCHEMA
from holdfast.postgresql.connection.sql import ident, qualified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.setup.backup_role import Role


@dataclass(frozen=True)
class SchemaRights:
    """Schema, with a role's rights in it.

    :param owners: of what is in it: what they make there later is to be readable, too.
    :param lacks: kinds of rights that are missing: usage, tables, sequences.
    :param had: rights that were given to this very role, in the words of GRANT.
    """

    name: str
    owners: tuple[str, ...]
    lacks: tuple[str, ...]
    had: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"schema {self.name}"

    def _defaults(self, owner: str, kind: str) -> str:
        return f"defaults of {owner} for {kind}"

    def grants(self, role: str) -> tuple[str, ...]:
        to = ident(self.name)
        objects = {
            "usage": f"GRANT USAGE ON SCHEMA {to} TO {role};",
            "tables": f"GRANT SELECT ON ALL TABLES IN SCHEMA {to} TO {role};",
            "sequences": f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA {to} TO {role};",
        }
        later = (
            f"ALTER DEFAULT PRIVILEGES FOR ROLE {ident(owner)} IN SCHEMA {to} GRANT SELECT ON {kind.upper()} TO {role};"
            for owner in self.owners
            for kind in ("tables", "sequences")
            if self._defaults(owner, kind) not in self.had
        )
        return (*(objects[kind] for kind in self.lacks), *later)

    def revokes(self, role: str, kept: Sequence[str]) -> tuple[str, ...]:
        """Return the statements that revoke all rights in the schema but those from before setup.

        :param kept: these, as they were recorded; what does not stand in `had` is ignored.
        """
        to = ident(self.name)
        later = (
            f"ALTER DEFAULT PRIVILEGES FOR ROLE {ident(owner)} IN SCHEMA {to} "
            f"REVOKE SELECT ON {kind.upper()} FROM {role};"
            for owner in self.owners
            for kind in ("tables", "sequences")
            if self._defaults(owner, kind) not in kept and self._defaults(owner, kind) in self.had
        )
        again = (f"GRANT {each} TO {role};" for each in self.had if each in kept and not each.startswith("defaults"))
        return (
            *later,
            f"REVOKE SELECT ON ALL TABLES IN SCHEMA {to} FROM {role};",
            f"REVOKE SELECT ON ALL SEQUENCES IN SCHEMA {to} FROM {role};",
            f"REVOKE USAGE ON SCHEMA {to} FROM {role};",
            *again,
        )


# The owner of schema public may be pg_database_owner, as whom nobody makes anything.
_SCHEMAS = f"""
with role as (select %(subject)s::text as name, (select oid from pg_catalog.pg_roles where rolname = %(role)s) as oid)
select n.nspname, pg_catalog.has_schema_privilege(role.name, n.oid, 'usage'),
  array(select pg_catalog.pg_get_userbyid(
      case when o.owner = 'pg_database_owner'::regrole then d.datdba else o.owner end)
    from (select n.nspowner as owner union select c.relowner from pg_catalog.pg_class c
      where c.relnamespace = n.oid and c.relkind in ('r', 'p', 'S')) o where o.owner is distinct from role.oid
    group by 1 order by 1)::text[],
  exists (select from pg_catalog.aclexplode(n.nspacl) a where a.grantee = role.oid and a.privilege_type = 'USAGE')
from role, pg_catalog.pg_namespace n, pg_catalog.pg_database d
where {USER_SCHEMA} and d.datname = pg_catalog.current_database()
  and not exists (select from pg_catalog.pg_depend x where x.classid = 'pg_catalog.pg_namespace'::regclass
    and x.objid = n.oid and x.deptype = 'e')
order by 1
"""

_RELATIONS = f"""
with role as (select %(subject)s::text as name, (select oid from pg_catalog.pg_roles where rolname = %(role)s) as oid)
select n.nspname, c.relname, c.relkind = 'S',
  {NO_EXTENSION} and c.relkind in ('r', 'p', 'S') and not (case when c.relkind = 'S'
    then pg_catalog.has_sequence_privilege(role.name, c.oid, 'select')
    else pg_catalog.has_table_privilege(role.name, c.oid, 'select') end),
  exists (select from pg_catalog.aclexplode(c.relacl) a where a.grantee = role.oid and a.privilege_type = 'SELECT')
from role, pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where {USER_SCHEMA} and c.relkind in ('r', 'p', 'S', 'v', 'm', 'f')
order by 1, 2
"""

_DEFAULTS = """
select n.nspname, pg_catalog.pg_get_userbyid(d.defaclrole),
  case d.defaclobjtype when 'S' then 'sequences' else 'tables' end
from pg_catalog.pg_default_acl d join pg_catalog.pg_namespace n on n.oid = d.defaclnamespace,
  pg_catalog.aclexplode(d.defaclacl) a
where a.privilege_type = 'SELECT' and d.defaclobjtype in ('r', 'S')
  and a.grantee = (select oid from pg_catalog.pg_roles where rolname = %(role)s)
"""


def read_schemas(session: Connection, role: Role) -> tuple[SchemaRights, ...]:
    values = {"subject": role.subject, "role": role.name}
    had: dict[str, list[str]] = {}
    lacks: dict[str, set[str]] = {}
    for schema, name, is_sequence, missing, direct in session.execute(_RELATIONS, values):
        if missing:
            lacks.setdefault(schema, set()).add("sequences" if is_sequence else "tables")
        if direct:
            kind = "SEQUENCE" if is_sequence else "TABLE"
            had.setdefault(schema, []).append(f"SELECT ON {kind} {qualified(schema, name)}")
    for schema, owner, kind in session.execute(_DEFAULTS, values):
        had.setdefault(schema, []).append(f"defaults of {owner} for {kind}")
    found = []
    for name, usable, owners, direct in session.execute(_SCHEMAS, values):
        missing = {"usage"} if not usable else set()
        missing |= lacks.get(name, set())
        usage = [f"USAGE ON SCHEMA {ident(name)}"] if direct else []
        ordered = tuple(kind for kind in ("usage", "tables", "sequences") if kind in missing)
        found.append(SchemaRights(name, tuple(owners), ordered, (*usage, *had.get(name, ()))))
    return tuple(found)
