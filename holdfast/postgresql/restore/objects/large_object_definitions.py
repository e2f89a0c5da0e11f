"""Large objects created in a target, with owner, privileges and comment as far as may be."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from holdfast.postgresql.connection.session import first_column, refusal_of, session_role
from holdfast.postgresql.connection.session_errors import words
from holdfast.postgresql.connection.sql import ident, literal
from holdfast.postgresql.restore.plan.ledger import note_left_out, once, read_left_out
from holdfast.postgresql.restore.plan.plan import NotRestored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.postgresql.catalog.large_objects import LargeObjectGroup
    from holdfast.postgresql.connection.session import Connection

_AT_ONCE: Final = 500
"""Objects of one transaction: each that changes its owner or privileges holds a lock to its end."""


def create_large_objects(session: Connection, group: LargeObjectGroup) -> list[NotRestored]:
    """Create large objects, still empty, with owner, privileges and comment, once.

    :param session: in autocommit mode, of a restore.
    :return: what of that its role may not do.
    """
    waiting, left = group.each(), list[NotRestored]()
    while oids := list(islice(waiting, _AT_ONCE)):
        step = f"large objects {oids[0]}"
        with once(session, step) as is_new:
            if is_new:
                missing = first_column(session, _MISSING, (oids,))
                session.execute("select pg_catalog.lo_create(o) from unnest(%s::oid[]) o", (missing,))
                note_left_out(session, step, _define(session, group, missing))
            left += read_left_out(session, step)
    return left


_MISSING = """
select o::int8 from unnest(%s::oid[]) o
where not exists (select from pg_catalog.pg_largeobject_metadata m where m.oid = o)
"""
"""An earlier release has noted no such steps, so that some may be there."""


def _define(session: Connection, group: LargeObjectGroup, oids: Sequence[int]) -> Iterator[NotRestored]:
    if not oids:
        return
    more = f" and {len(oids) - 1} more" if len(oids) > 1 else ""
    for what, statements in _definition(group, oids, session_role(session)).items():
        done = "; ".join(statements)
        if statements and (error := refusal_of(session, done)) is not None:
            yield NotRestored(f"{what} of large object {oids[0]}{more}", words(error), f"{done};")


def _definition(group: LargeObjectGroup, oids: Sequence[int], creator: str) -> dict[str, list[str]]:
    owner = [f"alter large object {oid} owner to {ident(group.owner)}" for oid in oids if group.owner != creator]
    privileges = []
    if group.grants is not None:
        objects = f"large object {', '.join(map(str, oids))}"
        privileges.append(f"revoke all on {objects} from {ident(group.owner)}, public")
        for grant in group.grants:
            to = ident(grant.grantee) if grant.grantee else "public"
            option = " with grant option" if grant.grantable and grant.grantee != group.owner else ""
            given = f"grant {grant.privilege} on {objects} to {to}{option}"
            privileges += [given] if grant.grantor == group.owner else _as_role(grant.grantor, given)
    said = literal(group.comment or "")
    comment = [f"comment on large object {oid} is {said}" for oid in oids if group.comment is not None]
    return {"owner": owner, "privileges": privileges, "comment": comment}


def _as_role(role: str, statement: str) -> list[str]:
    return [f"set local role {ident(role)}", statement, "set local role none"]
