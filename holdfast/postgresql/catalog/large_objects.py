"""Large objects: their contents are the rows of pg_largeobject, their definitions stand in the catalog record.

pg_dump writes definitions only together with contents, so they are read here; `object_creation` creates them.
Contents are written with lo_put, which any role may use on its own objects; pg_largeobject itself can be written by
superusers only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.common.errors import RefusedError
from holdfast.postgresql.catalog.record import CatalogRecord
from holdfast.postgresql.connection.session import session_role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psycopg
    import pyarrow as pa

    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection

LARGE_OBJECTS: Final = 2613
"""Oid of pg_largeobject, and so the id of its rows in every archive."""

KEPT_PAGES: Final = (
    "(pg_catalog.octet_length(data) > 0 or not exists (select from pg_catalog.pg_largeobject later "
    "where later.loid = pg_largeobject.loid and later.pageno > pg_largeobject.pageno))"
)
"""Of the rows of pg_largeobject. lo_truncate leaves pages without a byte; only as the last one has such a page a
meaning: the object ends there."""

_WRITE: Final = 0x20000
_ROWS_AT_ONCE: Final = 1000


class Grant(CatalogRecord):
    """One entry of an access control list; the grantee "" is PUBLIC."""

    grantor: str
    grantee: str
    privilege: str
    grantable: bool


class LargeObjectGroup(CatalogRecord):
    """Large objects with equal owner, privileges and comment.

    They differ in nothing but their oids and contents.

    :param oids: ascending, as `16400-16402,16410`: millions of them take little room.
    :param grants: None is what a new object has.
    """

    owner: str
    grants: tuple[Grant, ...] | None
    comment: str | None
    oids: str

    @property
    def count(self) -> int:
        """Return the number of objects."""
        return sum(len(span) for span in self._spans())

    def _spans(self) -> Iterator[range]:
        for span in self.oids.split(","):
            first, _, last = span.partition("-")
            yield range(int(first), int(last or first) + 1)

    def each(self) -> Iterator[int]:
        """Yield the objects' oids."""
        for span in self._spans():
            yield from span


# Consecutive oids have the same distance to their place in the order.
_GROUPS = """
with kept as (
  select m.oid::int8 as oid, pg_catalog.pg_get_userbyid(m.lomowner)::text as owner, m.lomacl, d.description
  from pg_catalog.pg_largeobject_metadata m left join pg_catalog.pg_description d
    on d.classoid = 'pg_catalog.pg_largeobject'::regclass and d.objoid = m.oid and d.objsubid = 0
), numbered as (
  select *, oid - row_number() over (partition by owner, lomacl::text, description order by oid) as span from kept
), spans as (
  select owner, lomacl::text as acl, description, min(oid) as first, max(oid) as last
  from numbered group by owner, lomacl::text, description, span
)
select owner, description,
  (select coalesce(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
      'grantor', pg_catalog.pg_get_userbyid(a.grantor),
      'grantee', case when a.grantee = 0 then '' else pg_catalog.pg_get_userbyid(a.grantee) end,
      'privilege', a.privilege_type, 'grantable', a.is_grantable) order by a.place), '[]')
    from pg_catalog.aclexplode(acl::aclitem[]) with ordinality
      a(grantor, grantee, privilege_type, is_grantable, place)),
  acl is null, string_agg(case first when last then first::text else first || '-' || last end, ',' order by first)
from spans group by owner, acl, description order by min(first)
"""


def read_groups(session: Connection) -> tuple[LargeObjectGroup, ...]:
    """Read the definitions of all large objects, as of the session's snapshot."""
    return tuple(
        LargeObjectGroup(owner=owner, comment=comment, grants=None if default else grants, oids=oids)
        for owner, comment, grants, default, oids in session.execute(_GROUPS)
    )


def check_comparable(session: Connection, address: Address) -> None:
    """Refuse a role that may not read the large objects it writes.

    Without that right they could not be compared with the archive.

    :raises RefusedError: it may not.
    """
    may = "select pg_catalog.has_table_privilege('pg_catalog.pg_largeobject', 'select')"
    if session.execute(may).fetchone() != (True,):
        who = session_role(session)
        raise RefusedError(
            f"the backup holds large objects, and {who} may not read those of {address.url}, so they "
            f"could not be compared with the archive: grant pg_read_all_data to {who}, or restore without them "
            "(--tables '*')"
        )


def put_pages(cursor: psycopg.Cursor[Any], batches: Iterable[pa.RecordBatch]) -> int:
    """Write rows of pg_largeobject into existing objects, in the cursor's transaction.

    Returns the number of rows.
    """
    rows = 0
    for batch in batches:
        for first in range(0, batch.num_rows, _ROWS_AT_ONCE):
            part = batch.slice(first, _ROWS_AT_ONCE)
            _put(cursor, *(part.column(name).to_pylist() for name in ("loid", "pageno", "data")))
        rows += batch.num_rows
    return rows


# A page of an object has a quarter of the bytes of a page of a table (LOBLKSIZE).
_PAGES = """
with page as (select o, number::int8 * (current_setting('block_size')::int8 / 4) as start, content
  from unnest(%b::oid[], %b::int4[], %b::bytea[]) p(o, number, content))
"""
_PUT = (
    f"{_PAGES} select count(pg_catalog.lo_put(o, start, content)) from page where pg_catalog.octet_length(content) > 0"
)
_END = f"""{_PAGES}, opened as materialized (
  select pg_catalog.lo_open(o, {_WRITE}) as descriptor, start from page where pg_catalog.octet_length(content) = 0
), ended as materialized (select descriptor, pg_catalog.lo_truncate64(descriptor, start) from opened)
select count(pg_catalog.lo_close(descriptor)) from ended
"""


def _put(cursor: psycopg.Cursor[Any], oids: list[str], numbers: list[int], contents: list[bytes]) -> None:
    values = ([int(oid) for oid in oids], numbers, contents)
    cursor.execute(_PUT.encode(), values)
    if not all(contents):
        cursor.execute(_END.encode(), values)
