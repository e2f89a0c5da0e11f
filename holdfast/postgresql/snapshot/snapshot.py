"""Snapshot of a database, held while many sessions read it.

The rules come from failing runs: a TRUNCATE or a rewriting ALTER that commits between the export of a
snapshot and the first read makes that read return *no rows without an error*; so a second session
imports the snapshot, locks every table, and compares what the catalog said of each in the snapshot with
what it says now. From then on this one session both exports the snapshot and keeps the locks: as long as
the snapshot can be imported, nobody has changed a table.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import psycopg

from holdfast.common.errors import BusyError, HoldfastError
from holdfast.postgresql.catalog.catalog_queries import (
    NO_EXTENSION,
    USER_SCHEMA,
    left_out,
    read_catalog,
    read_tables,
)
from holdfast.postgresql.catalog.extension_rows import CONFIGURED, READABLE
from holdfast.postgresql.connection.reading_role import reading_address
from holdfast.postgresql.connection.session import connect, first_column
from holdfast.postgresql.connection.session_errors import words
from holdfast.postgresql.connection.sql import qualified
from holdfast.postgresql.connection.value_settings import KeptSettings
from holdfast.postgresql.snapshot.export import SLOT_WAIT_S, enter_snapshot, export_snapshot
from holdfast.postgresql.snapshot.obstacles import obstacles, refuse
from holdfast.postgresql.snapshot.readers_first import readers_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.snapshot.export import Snapshot

LOCK_WAIT_S = 60.0
_ATTEMPTS = 5
_ATTEMPTS_BESIDE_DDL = 50
QUEUE_WAIT_S = 10.0
"""How long a session of a running backup waits behind somebody who waits for this backup: a deadlock that
PostgreSQL cannot see. A migration with a lock_timeout gives way first; one without is let through by an end."""

_LOCK_BATCH = 200

_USER_TIMEOUT_MS = 60_000
"""Of the session that holds a snapshot and sends next to nothing: when the server is gone it is not waited for.
Source: PostgreSQL manual, 'Parameter Key Words', tcp_user_timeout."""


@dataclass(frozen=True)
class HeldSnapshot:
    """Exported snapshot, and a session in it."""

    snapshot: Snapshot
    session: Connection
    turn: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)
    """Turn of the thread that may use the session."""

    @cached_property
    def catalog(self) -> Catalog:
        """Return the record of the database's objects, as they are in the snapshot."""
        return read_catalog(self.session, read_tables(self.session))

    @cached_property
    def not_included(self) -> tuple[str, ...]:
        """Return everything that a backup omits, each with its reason."""
        unread = (f"{each.label}: {each.failed}" for each in self.catalog.configuration if each.failed)
        return (*left_out(self.session), *unread)

    def check_labels(self, now: Connection) -> None:
        """Check that no enum label was renamed since the snapshot.

        Values are read with the server's labels of today.

        No lock keeps anybody from renaming one.

        :param now: a session outside of the snapshot.
        :raises HoldfastError: names the types of those that were renamed.
        """
        today = {oid: label for oid, label, _ in now.execute(_LABELS)}
        if renamed := {kind for oid, label, kind in self.session.execute(_LABELS) if today.get(oid, label) != label}:
            raise HoldfastError(
                f"labels of {', '.join(sorted(renamed))} were renamed while rows were read, which may hold old and new "
                "ones now: back up again"
            )

    def why_gone(self) -> str:
        """Return libpq's reason for the session's end; "" while it lives.

        The snapshot and the locks that it held have ended with it.
        """
        try:
            with self.turn:
                self.session.execute("select 1")
        except psycopg.Error as error:
            return words(error) or type(error).__name__
        return ""


_LABELS = "select oid::int8, enumlabel::text, enumtypid::regtype::text from pg_catalog.pg_enum"


class _TablesChangedError(Exception):
    """Change of a table between the snapshot and its lock.

    The table was truncated, altered or renamed: take another snapshot.
    """


@contextmanager
def hold_snapshot(
    address: Address,
    *,
    ddl_waits: bool = False,
    slot_wait: float = SLOT_WAIT_S,
    after_export: Callable[[Snapshot], None] = lambda snapshot: None,
) -> Iterator[HeldSnapshot]:
    """Hold a snapshot, with its tables locked, until the block ends.

    That it can be read is proved first.

    One session holds it all: other ones, of other processes too, can read in the snapshot as long as it lives.

    :param ddl_waits: readers go before those who wait to change a table, who wait until the block ends.
    :param slot_wait: seconds to wait for a logical slot's consistent point.
    :param after_export: called between export and locking (tests provoke races there).
    :raises RefusedError: something could not be read whole; `obstacles` says what that may be.
    :raises BusyError: somebody keeps a table locked.
    """
    attempts = _ATTEMPTS_BESIDE_DDL if ddl_waits else _ATTEMPTS
    for _attempt in range(attempts):
        patience = {} if "tcp_user_timeout" in address.url else {"tcp_user_timeout": _USER_TIMEOUT_MS}
        reading = reading_address(address)
        session = connect(reading, **patience)
        try:
            with export_snapshot(address, slot_wait=slot_wait) as snapshot:
                after_export(snapshot)
                try:
                    held = _lock_and_check(reading, session, snapshot)
                except (_TablesChangedError, psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                    continue
                except psycopg.errors.LockNotAvailable as error:
                    raise locked_by_others(address, LOCK_WAIT_S) from error
            held = replace(held, snapshot=replace(held.snapshot, ddl_waits=ddl_waits))
            with readers_first(address, held.session, held.turn) if ddl_waits else nullcontext():
                yield held
            return
        finally:
            session.close()
    raise HoldfastError(
        f"tables of {address.url} were truncated, altered or dropped each time a snapshot was taken "
        f"({attempts} times): back up when no such job runs{'' if ddl_waits else ', or let it wait (--ddl wait)'}"
    )


@contextmanager
def open_snapshot(address: Address, snapshot: Snapshot) -> Iterator[HeldSnapshot]:
    """Open a session in a snapshot that another session holds.

    That it can be entered proves that the other session still holds it.

    :raises SnapshotGoneError: it does not.
    :raises BusyError: somebody waits to change a table, and does not give way in QUEUE_WAIT_S.
    """
    with connect(address) as session:
        enter_snapshot(session, snapshot)
        # Already looking up a table's size waits for its lock.
        wait = queue_wait(snapshot)
        session.execute(f"SET LOCAL lock_timeout = {int(wait * 1000)}")
        settings = KeptSettings(session)
        try:
            if snapshot.ddl_waits:  # each later look would wait for its turn again
                _lock_all(session)
            yield HeldSnapshot(snapshot, session)
            settings.check()
        except psycopg.errors.LockNotAvailable as error:
            raise queued_behind(address, wait) from error
        session.execute("ROLLBACK")


def queue_wait(snapshot: Snapshot) -> float:
    """Return the seconds that a reader waits for a lock on a table."""
    return LOCK_WAIT_S if snapshot.ddl_waits else QUEUE_WAIT_S


def _lock_and_check(address: Address, session: Connection, snapshot: Snapshot) -> HeldSnapshot:
    enter_snapshot(session, snapshot)
    session.execute(f"SET LOCAL lock_timeout = {int(LOCK_WAIT_S * 1000)}")
    refuse(obstacles(session))
    oids = _lock_all(session)
    with connect(address) as now:
        if _versions(now, oids) != _versions(session, oids):
            raise _TablesChangedError
    # What was imported can be exported again: from here on this session alone holds the snapshot with its locks.
    exported = session.execute("select pg_catalog.pg_export_snapshot()").fetchone()
    if exported is None:
        raise HoldfastError("the server exported no snapshot")
    return HeldSnapshot(replace(snapshot, name=exported[0]), session)


_TO_LOCK = f"""
select c.oid::int8, n.nspname, c.relname
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and {USER_SCHEMA} and {NO_EXTENSION}
  or c.relkind = 'r' and {CONFIGURED} and {READABLE}
  or c.oid = 'pg_catalog.pg_largeobject'::regclass and exists (select from pg_catalog.pg_largeobject_metadata)
order by 2, 3
"""


# The row versions of what the catalog says of tables: each change of a table makes new ones. A query looks columns
# and storage up as they are now, in any snapshot.
_VERSIONS = """
select count(*), sum(pg_catalog.hashtextextended(pg_catalog.concat_ws(' ', c.oid, c.xmin, a.attnum, a.xmin), 0))
from pg_catalog.pg_class c left join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0
where c.oid = any(%s::oid[])
"""


def _versions(session: Connection, oids: list[int]) -> tuple[Any, ...] | None:
    return session.execute(_VERSIONS, (oids,)).fetchone()


def _lock_all(session: Connection) -> list[int]:
    tables = session.execute(_TO_LOCK).fetchall()
    for start in range(0, len(tables), _LOCK_BATCH):
        names = ", ".join(f"ONLY {qualified(schema, name)}" for _, schema, name in tables[start : start + _LOCK_BATCH])
        session.execute(f"LOCK TABLE {names} IN ACCESS SHARE MODE".encode())
    return [oid for oid, _, _ in tables]


_LOCKED = """
select format('%%s by pid %%s (%%s)', l.relation::regclass, l.pid, coalesce(a.application_name, '?'))
from pg_catalog.pg_locks l left join pg_catalog.pg_stat_activity a on a.pid = l.pid
where l.locktype = 'relation' and l.mode = 'AccessExclusiveLock' and l.granted = %s and l.relation >= 16384
  and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
"""


def locked_by_others(address: Address, waited: float) -> BusyError:
    """Return an error that names the sessions with locks on tables.

    :param waited: seconds.
    """
    with connect(address) as session:
        locked = "; ".join(first_column(session, _LOCKED, (True,))) or "a table whose lock is free again now"
    return BusyError(
        f"tables stayed locked for {waited:.0f} s by an ACCESS EXCLUSIVE lock: {locked}. "
        "Let it finish, then back up again"
    )


def queued_behind(address: Address, waited: float) -> BusyError:
    """Return an error that names the sessions waiting to change tables.

    They wait for the backup, and keep its own readers waiting.

    :param waited: seconds.
    """
    with connect(address) as session:
        waiting = "; ".join(first_column(session, _LOCKED, (False,))) or "nobody any more"
    return BusyError(
        f"somebody waits for this backup to change a table (ALTER, DROP, TRUNCATE, VACUUM FULL), and for "
        f"{waited:.0f} s every new reader queued behind: {waiting}. The backup has given way; "
        "start it again after it, or let such changes wait for the backup (--ddl wait)"
    )
