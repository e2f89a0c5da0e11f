"""Create the objects of a plan: those that rows need first, the others when the rows are there.

Each step is done once, whoever tries it again (`ledger.once`), so a restore that was ended goes on from any point.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from holdfast.errors import HoldfastError
from holdfast.sources.postgresql.large_objects import create_large_objects
from holdfast.sources.postgresql.ledger import noted, once
from holdfast.sources.postgresql.plan import NotRestored
from holdfast.sources.postgresql.selection import ATTACHED, FOLLOWERS
from holdfast.sources.postgresql.session import BY_ROWS, server_error
from holdfast.sources.postgresql.stages import FOREIGN_KEY, after, stages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.sources.postgresql.parallel import Sessions
    from holdfast.sources.postgresql.plan import RestorePlan
    from holdfast.sources.postgresql.toc import Entry

    Connection = psycopg.Connection[tuple[Any, ...]]

LOCK_WAIT_S = 60.0
"""How long a foreign key waits for a table that others use, while their writers queue behind it."""

_BATCH = 500
"""Entries in one transaction: it keeps the lock of each table, and a server has room for a few thousand."""

SETTINGS = "set check_function_bodies = off; set xmloption = content; set client_min_messages = warning"
"""What pg_dump sets for what it writes; the rest of its settings are those of every session."""

# A table of this transaction has privileges already only where the target has defaults for new objects.
_GRANTED_BY_DEFAULT = """
select distinct case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass::text,
  case a.grantee when 0 then 'public' else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) end
from holdfast_restore.created n join pg_catalog.pg_class c on n.class = 'pg_catalog.pg_class'::regclass
  and (c.oid = n.object or c.oid in (select d.objid from pg_catalog.pg_depend d where d.refobjid = n.object
    and d.classid = 'pg_catalog.pg_class'::regclass and d.refclassid = 'pg_catalog.pg_class'::regclass
    and d.deptype in ('a', 'i'))),
  pg_catalog.aclexplode(c.relacl) a
where a.grantee <> c.relowner and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
"""


def create_tables(sessions: Sessions, plan: RestorePlan) -> None:
    """Create everything that rows need.

    :param sessions: with `SETTINGS`.
    :raises HoldfastError: something could not be created. Beside other things, nothing is, then.
    """
    entries = [entry for entry in plan.entries if entry.section == "pre-data"]
    size = len(entries) if plan.beside else _BATCH

    def create(session: Connection, start: int) -> None:
        with once(session, f"create {start}") as is_new:
            if is_new:
                (_create_beside if plan.beside else _create)(session, entries[start : start + size])

    sessions.run(range(0, len(entries), size or 1), create, at_once=1)
    sessions.run(plan.large_objects, create_large_objects)


def _create(session: Connection, entries: Sequence[Entry]) -> None:
    for entry in entries:
        _run(session, entry)


def _create_beside(session: Connection, entries: Sequence[Entry]) -> None:
    with noted(session):
        _create(session, [entry for entry in entries if entry.kind != "ACL"])
    for kind, name, role in session.execute(_GRANTED_BY_DEFAULT).fetchall():
        session.execute(f"revoke all on {kind} {name} from {role}".encode())
    _create(session, [entry for entry in entries if entry.kind == "ACL"])


def create_rest(sessions: Sessions, plan: RestorePlan) -> tuple[NotRestored, ...]:
    """Create indexes, constraints and whatever else follows the rows.

    A foreign key to a table that the target had before may fail for reasons that lie in that table; keys and indexes of
    a table whose rows are of another moment because of these. They are left out then, with what needs them, and
    returned with the server's words.

    :param sessions: with `SETTINGS`; indexes and keys use all of them.
    :raises HoldfastError: anything else could not be created.
    """
    left: list[NotRestored | None] = []
    for stage in stages(plan.entries):
        at_once = None if stage.is_parallel else 1
        left += sessions.run(
            stage.entries, partial(_create_once, plan), at_once=at_once, after=after(stage, plan.entries)
        )
    return tuple(each for each in left if each is not None)


def _create_once(plan: RestorePlan, session: Connection, entry: Entry) -> NotRestored | None:
    borrowed, is_key = entry.id in plan.borrowed, entry.kind == FOREIGN_KEY
    is_object = plan.beside and entry.kind not in ATTACHED | FOLLOWERS
    try:
        with once(session, f"create {entry.id} {entry.kind}") as is_new:
            if not is_new:
                return None
            if borrowed and is_key:
                session.execute(f"set local lock_timeout = {int(LOCK_WAIT_S * 1000)}")
            with noted(session) if is_object else nullcontext():
                _run(session, entry)
    except HoldfastError as error:
        if session.broken or not (borrowed and (is_key or isinstance(error.__cause__, BY_ROWS))):
            raise
        return NotRestored(entry.label, " ".join(str(error.__cause__ or error).split()), entry.sql)
    return None


def _run(session: Connection, entry: Entry) -> None:
    try:
        # Names that all databases of a server share may be in no encoding at all.
        session.execute(f"{entry.settings} {entry.sql}".encode("utf-8", "surrogateescape"))
    except psycopg.Error as error:
        raise server_error(f"{entry.label} could not be created", error) from error
