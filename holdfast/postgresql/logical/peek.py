"""Reading of a slot's decoded changes, without moving the slot.

PostgreSQL 18 leaves changes out where the publication is not there at the point of the log that is
decoded, and says so in a WARNING alone, which ADBC's driver throws away; up to 17 that is an error. A
publication that was renamed and renamed back looks the same before and after.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

from holdfast.common.errors import BusyError, RefusedError
from holdfast.postgresql.connection.session import NOTICE_CLIENTS, connect, first_value
from holdfast.postgresql.connection.session_errors import SessionError
from holdfast.postgresql.connection.sql import ident, literal

if TYPE_CHECKING:
    import psycopg

    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.arrow_session import ArrowSession
    from holdfast.postgresql.connection.session import Connection

FREE_WAIT_S = 30.0
"""So long a slot is waited for that somebody reads: the server takes seconds to notice that a reader was killed."""

_POLL_S = 0.1

DECODING_BYTES: Final = 256 << 20
"""Of a transaction's changes in the server's memory before it writes them to its disk, one by one.

With the 64 MB that are PostgreSQL's own default, transactions of half a million rows took two to three times as long.
"""

DECODING_MEMORY: Final = (
    f"select pg_catalog.set_config(name, greatest(setting::int8, {DECODING_BYTES >> 10})::text || 'kB', false) "
    "from pg_catalog.pg_settings where name = 'logical_decoding_work_mem'"
)
"""Gives a session so much, or more where the server is set up for more."""

_OPTIONS: Final = {"proto_version": "1", "messages": "true"}

# Transactions older than the slot's catalog_xmin had ended before all that it decodes. A row of the catalog that one
# of them wrote has been there, as it is, ever since.
_STATE: Final = """
select p.oid is not null as is_there,
    coalesce(pg_catalog.age(p.xmin) > pg_catalog.age(s.catalog_xmin), false) as is_old,
    case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
         else pg_catalog.pg_current_wal_flush_lsn() end >= %(upto)s::pg_catalog.pg_lsn as is_written
from pg_catalog.pg_replication_slots s
left join pg_catalog.pg_publication p on p.pubname = %(publication)s
where s.slot_name = %(slot)s
"""


# One slot is left to others. Where the publication is young, each window would be looked at twice. A temporary slot
# does not wait for the standbys that the slot itself waits for.
_COPIES: Final = """
select pg_catalog.current_setting('max_replication_slots')::int - 1
    - (select pg_catalog.count(*)::int from pg_catalog.pg_replication_slots)
from pg_catalog.pg_replication_slots s join pg_catalog.pg_publication p on p.pubname = %(publication)s
where s.slot_name = %(slot)s and pg_catalog.age(p.xmin) > pg_catalog.age(s.catalog_xmin)
    and coalesce(pg_catalog.current_setting('synchronized_standby_slots', true), '') = ''
"""

_NO_SLOT_FREE: Final = "53400"


class SkippedChangesError(RefusedError):
    """Possible gap in the stream of changes: its content must not be kept."""


def peek_query(
    slot: str, publication: str, upto: str, most_changes: int | None, *, what: str = "data", binary: bool = False
) -> str:
    """Return the query of the slot's messages.

    :param upto: position; transactions whose commit record starts before it are read.
    :param most_changes: stop at the end of the transaction that brings the number of messages to this.
    """
    options = {**_OPTIONS, "binary": str(binary).lower(), "publication_names": ident(publication)}
    words = ", ".join(f"{literal(name)}, {literal(value)}" for name, value in options.items())
    most = "null" if most_changes is None else str(most_changes)
    return (
        f"select {what} from pg_catalog.pg_logical_slot_peek_binary_changes("
        f"{literal(slot)}, {literal(upto)}, {most}, {words})"
    )


def in_use(session: Connection, slot: str) -> BusyError:
    """Return the error that names the reader of a slot."""
    row = session.execute(
        "select format('pid %%s (%%s of %%s)', a.pid, coalesce(nullif(a.application_name, ''), '?'), a.usename) "
        "from pg_catalog.pg_replication_slots s join pg_catalog.pg_stat_activity a on a.pid = s.active_pid "
        "where s.slot_name = %s",
        (slot,),
    ).fetchone()
    who = row[0] if row else "somebody who has gone since"
    return BusyError(f"slot {slot} is used by {who}: let it end, or end it (select pg_terminate_backend(…))")


def wait_until_free(session: Connection, slot: str) -> None:
    """Wait until no session reads a slot.

    A killed job may have left one on the server.

    :raises BusyError: still after FREE_WAIT_S; names them.
    """
    query = "select from pg_catalog.pg_replication_slots where slot_name = %s and active_pid is not null"
    began = time.monotonic()
    while session.execute(query, (slot,)).fetchone() is not None:
        if time.monotonic() - began > FREE_WAIT_S:
            raise in_use(session, slot)
        time.sleep(_POLL_S)


def count_copies(session: Connection, slot: str, publication: str) -> int:
    """Return the number of copies of a slot that are worth making now."""
    return max(first_value(session, _COPIES, {"slot": slot, "publication": publication}) or 0, 0)


def copy_slot(session: ArrowSession, slot: str, start: str) -> str:
    """Copy a slot, to read changes from a position on.

    The slot itself stays at its position.

    :param session: the copy is its alone, and goes when it ends.
    :param start: position; transactions whose commit record starts before it are left out.
    :return: the copy's name.
    :raises BusyError: no slot has been free for so long.
    :raises SessionError: the server refused it.
    """
    name = f"{slot}_{secrets.token_hex(4)}"
    copy = f"select pg_catalog.pg_copy_logical_replication_slot({literal(slot)}, {literal(name)}, true)"
    began = time.monotonic()
    while True:
        try:
            session.execute(copy)
            break
        except SessionError as error:
            if error.sqlstate != _NO_SLOT_FREE:
                raise
            if time.monotonic() - began > FREE_WAIT_S:
                raise BusyError(
                    f"no replication slot is free beside {slot}: raise max_replication_slots, or say --connections 1"
                ) from error
        time.sleep(_POLL_S)
    session.execute(
        f"select pg_catalog.pg_replication_slot_advance(slot_name, {literal(start)}::pg_catalog.pg_lsn) "
        "from pg_catalog.pg_replication_slots "
        f"where slot_name = {literal(name)} and confirmed_flush_lsn < {literal(start)}::pg_catalog.pg_lsn"
    )
    return name


def check_nothing_is_skipped(
    address: Address, slot: str, publication: str, upto: str, query: str, *, waits: bool = True
) -> None:
    """Refuse a query of changes where the server may skip some.

    Where the publication's row in the catalog is younger than what the slot may still decode, all is decoded once
    more than needed, by a client that sees what the server says beside.

    :param query: as `peek_query` gives it, of a count.
    :param waits: for the slot itself, which is to be read next; else only where it is read here.
    :raises SkippedChangesError: it may; or the log is not written as far as `upto`.
    :raises BusyError: somebody else reads the slot.
    """
    with connect(address) as session:
        found = session.execute(_STATE.encode(), {"slot": slot, "publication": publication, "upto": upto}).fetchone()
        if found is None:
            raise SkippedChangesError(f"there is no slot {slot}: take a full backup")
        is_there, is_old, is_written = found
        if not is_there:
            raise SkippedChangesError(f"there is no publication {publication}: take a full backup")
        if not is_written:
            raise SkippedChangesError(f"the server's log has not come to {upto}: is it another server than before?")
        if waits or not is_old:
            wait_until_free(session, slot)
        if is_old:
            return
        said: list[str] = []
        session.add_notice_handler(lambda notice: said.append(_words(notice)))
        session.execute("set client_min_messages = notice")
        session.execute(NOTICE_CLIENTS)
        session.execute(DECODING_MEMORY)
        session.execute(query.encode())
    if said:
        raise SkippedChangesError(
            f"the server said, while it decoded the changes in slot {slot}: {said[0]}; some may be missing: "
            "take a full backup"
        )


def _words(notice: psycopg.errors.Diagnostic) -> str:
    return f"{notice.severity_nonlocalized or notice.severity}: {notice.message_primary}"
