"""Stream of a source's changes: a replication slot and its publication.

The slot keeps the server's log until its changes are archived, so that none is missed, and so the disk may fill up
where nobody archives them. What becomes of it between two backups (dropped, made again, advanced by somebody else,
given up by the server) is found by comparing it with what the archive's last block says.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from holdfast.common.cleanup import clean_up
from holdfast.common.errors import BusyError, HoldfastError
from holdfast.postgresql.connection.session import connect, first_column
from holdfast.postgresql.connection.session_errors import words
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.logical.ddl_triggers import trigger_version
from holdfast.postgresql.logical.flush_position import flush_position, schema_fingerprint
from holdfast.postgresql.logical.peek import count_copies, in_use, wait_until_free
from holdfast.postgresql.logical.publication import born_since, not_followed, plan_publication, reconcile
from holdfast.postgresql.logical.stream_state import (
    MAX_RETAINED_BYTES,
    PLUGIN,
    ExpectedStream,
    StreamState,
    look,
    lost_tables,
    retention_warning,
    why_broken,
)
from holdfast.postgresql.snapshot.export import SLOT_WAIT_S, why_no_slot
from holdfast.postgresql.snapshot.obstacles import refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection

__all__ = [
    "MAX_RETAINED_BYTES",
    "ExpectedStream",
    "Seen",
    "StreamState",
    "advance",
    "born_since",
    "check_unchanged",
    "count_copies",
    "drop_slot",
    "drop_stream",
    "flush_position",
    "keep",
    "look",
    "lost_tables",
    "open_stream",
    "retention_warning",
    "schema_fingerprint",
    "seen",
    "stream_name",
    "wait_until_free",
    "why_broken",
]

_FAILOVER = 170000
"""Since this version standbys can keep slots."""


class Seen(NamedTuple):
    """Point of reference for finding later changes of a source's objects.

    :param snapshot: `oldest:next:`, whole transaction ids: all before the first had ended, and the second was not given
        yet, so that from there on each transaction is committed behind every position that had been reached.
    :param definitions: what made the log tell of every change of a definition; "" where nothing did.
    """

    snapshot: str = ""
    definitions: str = ""


# age() counts from the transaction id that is next. A snapshot's greatest is not that one: a transaction that waits for
# a standby has its commit in the log, and for everybody else it still runs.
_SEEN = """
select pg_catalog.pg_snapshot_xmin(s)::text::int8, pg_catalog.pg_snapshot_xmax(s)::text::int8,
  3 + pg_catalog.age('3'::pg_catalog.xid)
from pg_catalog.pg_current_snapshot() s
"""


def seen(session: Connection) -> Seen:
    """Return the point of reference of the session's snapshot.

    The snapshot's transaction must have begun behind everything that was read before.
    """
    row = session.execute(_SEEN).fetchone()
    if row is None:
        return Seen("", trigger_version(session))
    oldest, newest, following = row
    return Seen(f"{oldest}:{newest + (following - newest) % (1 << 32)}:", trigger_version(session))


def stream_name(archive_id: str, source: str) -> str:
    """Return the name of a source's slot and publication.

    Each source of each archive has its own: who shares a slot loses what the other has read.
    """
    return "holdfast_" + hashlib.sha256(json.dumps([archive_id, source]).encode()).hexdigest()[:16]


def open_stream(address: Address, name: str, tables: Sequence[Table], *, wait: float = SLOT_WAIT_S) -> StreamState:
    """Begin a stream: first its publication, then its slot.

    The slot is to find the publication as it must be.

    A slot of the name that is there already is replaced: what was read of it cannot be known.

    :param tables: all that are backed up of this source; not only those of one backup.
    :param wait: seconds to wait for the transactions that are open, all of which a new slot waits for.
    :raises RefusedError: it cannot be made: names all reasons, or the SQL that only the tables' owner may run.
    :raises BusyError: transactions stayed open, or somebody reads the slot: names them.
    """
    with connect(address) as session:
        drop_slot(session, name)
        refuse(why_no_slot(session))
        plan = plan_publication(session, name, tables)
        reconcile(session, plan)
        try:
            _make_slot(session, name, wait)
        except BaseException as error:
            if not plan.exists:
                clean_up(error, lambda: _drop_publication(session, name))
            raise
        return _state(session, name, tables)


def keep(session: Connection, name: str, tables: Sequence[Table]) -> StreamState:
    """Bring a stream's publication up to date, and return the stream's state.

    :param tables: all that are backed up of this source; not only those of one backup.
    :raises RefusedError: only the tables' owner may: names the SQL.
    :raises HoldfastError: there is no such slot.
    """
    reconcile(session, plan_publication(session, name, tables))
    return _state(session, name, tables)


def _state(session: Connection, name: str, tables: Sequence[Table]) -> StreamState:
    state = look(session, name)
    if state is None:
        raise HoldfastError(f"slot {name} was dropped by somebody just now: start again")
    return replace(state, not_followed=not_followed(session, plan_publication(session, name, tables)))


def check_unchanged(session: Connection, name: str, publication_oid: int, position: str) -> None:
    """Check that a stream was read by the expected publication, from a position on.

    PostgreSQL 18 skips changes where there is no publication, and tells it by a warning only. A server that crashes
    forgets that a slot was advanced, so that what is archived already is read again.

    :raises HoldfastError: it was dropped, made again or changed meanwhile, or the slot is lost, or was put back.
    """
    state = look(session, name)
    if state is None or state.lost or state.publication_oid != publication_oid or state.publication_problem:
        raise HoldfastError(
            f"slot or publication {name} was changed while changes were read: nothing of them is kept; start again"
        )
    if not _is_at(session, name, position):
        raise HoldfastError(
            f"slot {name} is behind {position} again, as after a crash of the server: what was read of it is partly in "
            "the archive already, and nothing of it is kept; start again"
        )


def _make_slot(session: Connection, name: str, wait: float) -> None:
    # A standby that is told to may keep the slot, and nothing is archived that such a standby lacks.
    failover = ", failover => true" if session.info.server_version >= _FAILOVER else ""
    query = f"select pg_catalog.pg_create_logical_replication_slot(%s, %s{failover})"
    try:
        with session.transaction():
            # The server itself ends the wait: who is killed meanwhile leaves no slot behind that nobody knows of.
            session.execute(f"SET LOCAL statement_timeout = {max(int(wait * 1000), 1)}")
            session.execute(query.encode(), (name, PLUGIN))
    except psycopg.errors.QueryCanceled as error:
        drop_slot(session, name)  # it may have been made in the last moment
        transactions = "; ".join(first_column(session, _OPEN)) or "they have ended since"
        raise BusyError(
            f"open transactions kept the new slot {name} waiting for {wait:.0f} s: {transactions}. "
            "Let them end, then start again"
        ) from error
    except psycopg.errors.DuplicateObject as error:
        raise BusyError(f"slot {name} is being made by somebody else: start again when that is done") from error
    except psycopg.Error as error:
        raise HoldfastError(f"slot {name} could not be made: {words(error)}") from error


_OPEN = """
select format('pid %s of %s since %s', pid, usename, xact_start::timestamptz(0)) as who, xact_start
from pg_catalog.pg_stat_activity where backend_xid is not null and pid <> pg_catalog.pg_backend_pid()
union all
select format('prepared transaction %s of %s since %s', gid, owner, prepared::timestamptz(0)), prepared
from pg_catalog.pg_prepared_xacts
order by 2 limit 3
"""


def advance(session: Connection, name: str, position: str) -> None:
    """Confirm that changes up to a position are archived.

    The server may then remove its log of them.

    A slot that is there already, or further on, stays where it is.

    :raises BusyError: somebody reads the slot; names them.
    :raises HoldfastError: there is no such slot, or the server has given it up.
    """
    try:
        session.execute(
            "select pg_catalog.pg_replication_slot_advance(slot_name, %(position)s::pg_lsn) "
            "from pg_catalog.pg_replication_slots where slot_name = %(name)s "
            "and confirmed_flush_lsn < %(position)s::pg_lsn",
            {"name": name, "position": position},
        )
    except psycopg.errors.ObjectInUse as error:
        raise in_use(session, name) from error
    except psycopg.Error as error:
        if not _is_at(session, name, position):
            raise HoldfastError(f"slot {name} could not be advanced to {position}: {words(error)}") from error
    if not _is_at(session, name, position):
        raise HoldfastError(f"slot {name} is gone, or does not move to {position}: look with holdfast source check")


# A position on the first byte of a page lies behind the page's header, for who is to write there next.
_AT = """
select s.confirmed_flush_lsn >= %s::pg_lsn - 40 from pg_catalog.pg_replication_slots s where s.slot_name = %s
"""


def _is_at(session: Connection, name: str, position: str) -> bool:
    return session.execute(_AT, (position, name)).fetchone() == (True,)


def drop_slot(session: Connection, name: str) -> None:
    """Drop a slot; one that is not there is no failure.

    :raises BusyError: somebody reads it; names them.
    """
    try:
        session.execute(
            "select pg_catalog.pg_drop_replication_slot(slot_name) from pg_catalog.pg_replication_slots "
            "where slot_name = %s",
            (name,),
        )
    except psycopg.errors.ObjectInUse as error:
        raise in_use(session, name) from error


def drop_stream(session: Connection, name: str) -> None:
    """Drop a stream's slot and its publication in the session's database.

    Missing ones are no failure.

    :raises BusyError: somebody reads the slot; names them.
    :raises psycopg.Error: the role may not.
    """
    drop_slot(session, name)
    _drop_publication(session, name)


def _drop_publication(session: Connection, name: str) -> None:
    session.execute(f"DROP PUBLICATION IF EXISTS {ident(name)}".encode())
