"""Positions (LSN) in a server's log, and fingerprints of its definitions.

They are for the end of an incremental backup, and for finding changes of definitions between two moments.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holdfast.common.errors import HoldfastError
from holdfast.common.lsn import PAGE_HEADER, parse_position

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.postgresql.connection.session import Connection

FLUSH_WAIT_S = 10.0
_POLL_S = 0.01
URGE_S = 0.5
"""After this the server is urged: it lets the end of its log lie where nobody waits for it."""


def flush_position(session: Connection) -> tuple[datetime, str]:
    """Return the server's clock and a flushed position (LSN) of its log.

    All that was committed by then lies before the position.

    That holds also for commits that did not wait for the disk (synchronous_commit = off).

    :raises HoldfastError: the log's end did not reach the disk in FLUSH_WAIT_S.
    """
    clock = session.execute("select pg_catalog.clock_timestamp()").fetchone()
    inserted = session.execute(
        "select pg_catalog.pg_current_wal_insert_lsn()::text, current_setting('wal_block_size')::int"
    ).fetchone()
    if clock is None or inserted is None:
        raise HoldfastError("the server did not tell its time and the end of its log")
    began, urged = time.monotonic(), False
    while True:
        if position := _flushed(session, *inserted):
            return clock[0], position
        waited = time.monotonic() - began
        if waited > FLUSH_WAIT_S:
            raise HoldfastError(
                f"the server's log was not on its disk up to {inserted[0]} after {FLUSH_WAIT_S:.0f} s: is that slow?"
            )
        if waited > URGE_S and not urged:
            emit(session, "holdfast_flush", "")
            urged = True
        time.sleep(_POLL_S)


def _flushed(session: Connection, inserted: str, page: int) -> str:
    """Return the end of the inserted log once it is on disk; "" before.

    Where the last record filled its page, who inserts next begins behind the next page's header, which is not written
    yet: the log then ends on the page's first byte.
    """
    row = session.execute("select pg_catalog.pg_current_wal_flush_lsn()::text").fetchone()
    flushed = row[0] if row else "0/0"
    end, have = parse_position(inserted), parse_position(flushed)
    if have >= end:
        return inserted
    return flushed if have % page == 0 and end - have <= PAGE_HEADER else ""


def insert_position(session: Connection) -> str:
    """Return the log's insert position (LSN).

    The next record is written there, or behind it.
    """
    row = session.execute("select pg_catalog.pg_current_wal_insert_lsn()::text").fetchone()
    if row is None:
        raise HoldfastError("the server did not tell the end of its log")
    return str(row[0])


def emit(session: Connection, prefix: str, content: str) -> tuple[str, datetime]:
    """Write a logical message into the log, and wait until it is on disk.

    It has a transaction of its own.

    :return: a position just behind that transaction, and the server's clock then.
    """
    with session.transaction():
        # Not `on`: that would wait for standbys as well.
        session.execute("SET LOCAL synchronous_commit = local")
        session.execute("select pg_catalog.pg_logical_emit_message(true, %s, %s)", (prefix, content))
    row = session.execute(
        "select pg_catalog.pg_current_wal_insert_lsn()::text, pg_catalog.clock_timestamp()"
    ).fetchone()
    if row is None:
        raise HoldfastError("the server did not tell the end of its log")
    return row[0], row[1]


# Every row of a definition has another version (ctid, xmin) after each change of it. What ANALYZE and VACUUM write into
# pg_class they write in place. Where subscriptions and statistics stand, and large objects, are no definitions.
_DEFINED = """
select c.oid::int8, c.relname::text from pg_catalog.pg_class c
where c.relnamespace = 'pg_catalog'::regnamespace and c.relkind = 'r' and not c.relisshared
  and c.relname <> all (array['pg_statistic', 'pg_statistic_ext_data', 'pg_subscription_rel', 'pg_largeobject',
    'pg_largeobject_metadata']) and pg_catalog.has_table_privilege(c.oid, 'select')
order by 1
"""

# Of the whole server: what roles and tablespaces are called, and user mappings, as far as one may see them.
_SHARED = """
select 1::int8, pg_catalog.hashtextextended(concat_ws(' ', oid, rolname), 1) from pg_catalog.pg_roles
union all select 1, pg_catalog.hashtextextended(concat_ws(' ', oid, spcname), 2) from pg_catalog.pg_tablespace
union all select 1, pg_catalog.hashtextextended(u::text, 3) from pg_catalog.pg_user_mappings u
union all select 1, pg_catalog.hashtextextended(concat_ws(' ', oid, subname, subenabled, subslotname, subpublications),
    4) from pg_catalog.pg_subscription
  where subdbid = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())
"""


def schema_fingerprint(session: Connection) -> str:
    """Return a text that changes with every committed change of definitions.

    The definitions are those of the session's database.

    The same after ANALYZE, VACUUM and changes of rows; temporary tables change it while they are there. Two are
    comparable where the same role asked.
    """
    counted = " union all ".join(
        f"select count(*), sum(pg_catalog.hash_record_extended(row(ctid, xmin), {oid})) from pg_catalog.{name}"
        for oid, name in session.execute(_DEFINED).fetchall()
    )
    row = session.execute(
        f"select sum(n)::text || ':' || sum(h)::text from ({counted} union all {_SHARED}) as found(n, h)".encode()
    ).fetchone()
    if row is None or row[0] is None:
        raise HoldfastError("the server did not show its catalog")
    return str(row[0])
