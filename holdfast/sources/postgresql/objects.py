"""Create the objects of a plan: those that rows need in one transaction, the others when the rows are there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any

import psycopg

from holdfast.errors import HoldfastError
from holdfast.sources.postgresql.ledger import create_ledger, noted
from holdfast.sources.postgresql.plan import NotRestored
from holdfast.sources.postgresql.selection import ATTACHED, FOLLOWERS
from holdfast.sources.postgresql.session import connect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.sources.postgresql.address import Address
    from holdfast.sources.postgresql.plan import RestorePlan
    from holdfast.sources.postgresql.toc import Entry

    Connection = psycopg.Connection[tuple[Any, ...]]

LOCK_WAIT_S = 60.0
"""How long a foreign key waits for a table that others use, while their writers queue behind it."""

_INDEXES = frozenset({"INDEX", "CONSTRAINT"})

# pg_dump's own; the rest of its settings are those of every session.
_SETTINGS = ("check_function_bodies = off", "xmloption = content", "client_min_messages = warning")

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


@contextmanager
def _session(address: Address) -> Iterator[Connection]:
    with connect(address) as session:
        for setting in _SETTINGS:
            session.execute(f"SET {setting}".encode())
        yield session


def create_tables(address: Address, plan: RestorePlan) -> None:
    """Create everything that rows need, with the note of it, in one transaction.

    :raises HoldfastError: something could not be created; then nothing is.
    """
    entries = [entry for entry in plan.entries if entry.section == "pre-data"]
    with _session(address) as session, session.transaction():
        create_ledger(session, undoable=True)
        with noted(session):
            for entry in entries:
                if entry.kind != "ACL":
                    _run(session, entry)
        for kind, name, role in session.execute(_GRANTED_BY_DEFAULT).fetchall():
            session.execute(f"revoke all on {kind} {name} from {role}".encode())
        for entry in entries:
            if entry.kind == "ACL":
                _run(session, entry)


def create_rest(address: Address, plan: RestorePlan, *, sessions: int) -> tuple[NotRestored, ...]:
    """Create indexes, constraints and whatever else follows the rows.

    A foreign key to a table that the target had before may fail for reasons that lie in that table. It is left
    out then, and returned with the server's words.

    :param sessions: how many to use at once for indexes.
    :raises HoldfastError: anything else could not be created.
    """
    left: list[NotRestored] = []
    entries = [entry for entry in plan.entries if entry.section == "post-data"]
    for indexes, stretch in groupby(entries, key=lambda entry: entry.kind in _INDEXES):
        if indexes:
            for wave in waves(list(stretch)):
                _run_at_once(address, wave, sessions)
            continue
        with _session(address) as session:
            for entry in stretch:
                left += _run_alone(session, entry, borrowed=entry.id in plan.borrowed)
    return tuple(left)


def _run_alone(session: Connection, entry: Entry, *, borrowed: bool) -> Iterator[NotRestored]:
    try:
        with session.transaction():
            if borrowed:
                session.execute(f"set local lock_timeout = {int(LOCK_WAIT_S * 1000)}")
            if entry.kind in ATTACHED | FOLLOWERS:
                _run(session, entry)
            else:
                with noted(session):
                    _run(session, entry)
    except HoldfastError as error:
        if not borrowed or session.broken:
            raise
        yield NotRestored(entry.label, " ".join(str(error.__cause__ or error).split()), entry.sql)


def waves(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Yield entries that need none of each other: a partition's index comes after its parent's."""
    waiting = list(entries)
    while waiting:
        ids = {entry.id for entry in waiting}
        ready = [entry for entry in waiting if not ids.intersection(entry.needs)]
        yield ready or waiting
        waiting = [entry for entry in waiting if ids.intersection(entry.needs)] if ready else []


def _run_at_once(address: Address, entries: Sequence[Entry], sessions: int) -> None:
    """Build indexes in several sessions, those of one table in one."""
    by_table: dict[int, list[Entry]] = {}
    for entry in entries:
        by_table.setdefault(entry.owner, []).append(entry)

    def build(group: list[Entry]) -> None:
        with _session(address) as session:
            for entry in group:
                _run(session, entry)

    with ThreadPoolExecutor(sessions) as pool:
        list(pool.map(build, by_table.values()))


def _run(session: Connection, entry: Entry) -> None:
    try:
        session.execute(f"{entry.settings} {entry.sql}".encode())
    except psycopg.Error as error:
        raise HoldfastError(f"{entry.label} could not be created: {' '.join(str(error).split())}") from error
