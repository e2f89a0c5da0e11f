"""Readers of a held snapshot let in before those who wait to change its tables.

PostgreSQL lets no new reader of a table in while somebody waits for it to be free, and that one waits for the session
that holds the snapshot. Neither would ever end. The server itself undoes such a knot where it sees one: it lets a
session that waits only for its turn go ahead, if that ends a deadlock. So the holder waits for the reader, by a lock
that each reader has for nothing else; then the reader, who waits, is part of a circle, and is let in.

Source: PostgreSQL's src/backend/storage/lmgr/README, "The Deadlock Detection Algorithm" (soft edges of the waits-for
graph).
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import psycopg

from holdfast.common.errors import HoldfastError
from holdfast.postgresql.connection.session import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection

_READERS: Final = 1_214_606_438
"""Class of the advisory locks: one for each reader, by its process."""

_LOOK_S: Final = 0.25

_BLOCKED: Final = """
select w.pid from pg_catalog.pg_locks w join pg_catalog.pg_locks r on r.pid = w.pid
where not w.granted and w.locktype = 'relation' and r.granted and r.locktype = 'advisory' and r.classid::int8 = %s
  and r.objid::int8 = r.pid and r.database = (
    select d.oid from pg_catalog.pg_database d where d.datname = pg_catalog.current_database())
"""

_DEADLOCK_TIMEOUT: Final = "select setting::int from pg_catalog.pg_settings where name = 'deadlock_timeout'"
"""After so many milliseconds of waiting a session looks whether it is part of a deadlock."""


def become_reader(session: Connection, *, until: str = "xact_") -> None:
    """Let the holder of a snapshot wait for a session, until its transaction ends.

    :param until: "" for the session's own end.
    """
    session.execute(f"select pg_catalog.pg_advisory_{until}lock({_READERS}, pg_catalog.pg_backend_pid())".encode())


@contextmanager
def readers_first(address: Address, holder: Connection, turn: threading.Lock) -> Iterator[None]:
    """Let readers in while the block runs.

    :param holder: the session that holds the snapshot and the locks of its tables.
    :param turn: who has it may use that session.
    """
    is_over = threading.Event()
    thread = threading.Thread(target=_watch, args=(address, holder, turn, is_over), name="readers first", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _watch(address: Address, holder: Connection, turn: threading.Lock, is_over: threading.Event) -> None:
    # Where a session breaks, readers wait as long as they do without this; who started the backup sees to the rest.
    with suppress(psycopg.Error, HoldfastError), connect(address) as session:
        row = session.execute(_DEADLOCK_TIMEOUT).fetchone()
        wait_ms = 1000 + (row[0] if row else 1000)
        while not is_over.wait(_LOOK_S):
            for (pid,) in session.execute(_BLOCKED.encode(), (_READERS,)).fetchall():
                with turn:
                    _wait_for(holder, pid, wait_ms)


def _wait_for(holder: Connection, pid: int, wait_ms: int) -> None:
    """Let the holder wait until the server notices the circle."""
    holder.execute("savepoint reader")
    try:
        holder.execute(f"set local lock_timeout = {wait_ms}".encode())
        holder.execute(f"select pg_catalog.pg_advisory_xact_lock_shared({_READERS}, {pid})".encode())
    except psycopg.errors.LockNotAvailable:
        pass
    holder.execute("rollback to savepoint reader")
    holder.execute("release savepoint reader")
