"""Tables that may be published without harm to their owner.

PostgreSQL refuses the owner's UPDATE and DELETE of others.

It does so where a published table has no usable replica identity, also where only the root of its partitions is
published, and since version 18 where the identity has a generated column that is not published.

Sources: PostgreSQL manual, 'Logical Replication: Publication'; CheckCmdReplicaIdentity(), RelationGetReplicaIndex()
and pub_contains_invalid_column() of its source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.postgresql.catalog.catalog_queries import NO_EXTENSION, USER_SCHEMA
from holdfast.postgresql.connection.sql import qualified

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.postgresql.connection.session import Connection

_REFUSES_GENERATED = 180000
"""Since this version an identity of all columns does not bear a generated one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishableRelation:
    """Table, or root of partitions, with its facts for publishing it.

    :param kind: pg_class.relkind: r or p.
    :param ours: it is neither PostgreSQL's own nor an extension's.
    :param identity: pg_class.relreplident: d(efault), f(ull), i(ndex) or n(othing).
    :param indexed: the index of its identity, or of its primary key, is there and in force; None: it is there, but
        deferrable. Of a root always that of the primary key, since partitions get no other identity from it.
    :param generated: that index has a generated column.
    :param any_generated: it has a generated column.
    :param parent: oid of the partitioned table it is a partition of.
    :param owned: the session's role may do what its owner may.
    """

    oid: int
    table_schema: str
    name: str
    kind: str
    persistence: str
    ours: bool
    identity: str
    indexed: bool | None
    generated: bool
    any_generated: bool
    parent: int | None
    owner: str
    owned: bool

    @property
    def label(self) -> str:
        """Return `schema.name`, for people."""
        return f"{self.table_schema}.{self.name}"

    @property
    def sql(self) -> str:
        """Return the quoted name."""
        return qualified(self.table_schema, self.name)

    def why_never(self) -> str:
        """Return the reason against publishing the table at all; "" if there is none."""
        if not self.ours:
            return "it belongs to an extension or to PostgreSQL itself"
        if self.persistence != "p":
            return "it is unlogged, and its changes are in no log: alter table … set logged"
        return ""

    def why_no_identity(self, version: int) -> str:
        """Return the reason for a lack of a usable identity; "" if it has one.

        PostgreSQL would refuse UPDATE and DELETE of the published table, or would not send the identity whole.

        :param version: the server's, as libpq writes it.
        """
        if self.identity == "f":
            return "its replica identity is full, and it has a generated column" if self._unbearable(version) else ""
        if self.identity == "n":
            return "its replica identity is nothing"
        if not self.indexed:
            return self._why_no_index()
        # Older servers take it, but do not send the column, and rows could not be distinguished.
        return "its replica identity has a generated column" if self.generated else ""

    def _unbearable(self, version: int) -> bool:
        return self.any_generated and version >= _REFUSES_GENERATED

    def _why_no_index(self) -> str:
        if self.identity == "i":
            return "the index of its replica identity is gone"
        return "it has no primary key" if self.indexed is False else "its primary key is deferrable"

    def remedy(self, version: int) -> str:
        """Return a remedy that gives the table a usable identity."""
        if self.identity in "fn" and self.indexed and not self.generated:
            return f"alter table {self.sql} replica identity default"  # that is its primary key
        if self._unbearable(version):
            return f"alter table {self.sql} replica identity using a unique index without it"
        return f"alter table {self.sql} replica identity full, or give it a key"

    def full_helps(self, version: int) -> bool:
        """Return whether the table lacks a usable identity, and REPLICA IDENTITY FULL would be one."""
        lacks = self.kind == "r" and not self.why_never() and self.why_no_identity(version)
        return bool(lacks) and not self._unbearable(version)


_RELATIONS = f"""
select c.oid::int8 as oid, n.nspname as table_schema, c.relname as name, c.relkind::text as kind,
  c.relpersistence::text as persistence, {USER_SCHEMA} and {NO_EXTENSION} as ours, c.relreplident::text as identity,
  case when x.indexrelid is null then false when x.indimmediate then true end as indexed,
  exists (select from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum = any(x.indkey)
    and a.attgenerated <> '') as generated,
  exists (select from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    and a.attgenerated <> '') as any_generated,
  case when c.relispartition then (select i.inhparent::int8 from pg_catalog.pg_inherits i where i.inhrelid = c.oid)
    end as parent,
  pg_catalog.pg_get_userbyid(c.relowner) as owner, pg_catalog.pg_has_role(c.relowner, 'usage') as owned
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  left join pg_catalog.pg_index x on x.indrelid = c.oid and x.indisvalid and x.indislive and x.indisunique
    and case when c.relkind = 'r' and c.relreplident = 'i' then x.indisreplident else x.indisprimary end
where c.relkind in ('r', 'p') and c.relpersistence <> 't' and n.nspname not in ('pg_catalog', 'information_schema')
order by n.nspname, c.relname
"""


def read_relations(session: Connection) -> Mapping[int, PublishableRelation]:
    """Return the tables of the session's database, and the roots of partitions, by oid."""
    cursor = session.execute(_RELATIONS)
    names = [column.name for column in cursor.description or ()]
    return {row[0]: PublishableRelation(**dict(zip(names, row, strict=True))) for row in cursor}
