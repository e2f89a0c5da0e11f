"""One moment of a database, held still while many sessions read it.

The rules come from failing runs: a TRUNCATE or a rewriting ALTER that commits between the export of a
snapshot and the first read makes that read return *no rows without an error*; so a second session
imports the snapshot, locks every table, and compares the storage each table had in the snapshot with
what it has now.
"""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from holdfast.errors import BusyError, HoldfastError
from holdfast.sources.postgresql.catalog import Catalog, left_out, read_catalog, read_tables
from holdfast.sources.postgresql.obstacles import Obstacle, obstacles, refuse
from holdfast.sources.postgresql.session import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.sources.postgresql.address import Address
    from holdfast.sources.postgresql.catalog import Table

    Connection = psycopg.Connection[tuple[Any, ...]]

SLOT_WAIT_S = 60.0
"""A logical slot waits for every transaction that is open; after this the position is read beside it."""

LOCK_WAIT_S = 60.0
_ATTEMPTS = 5
QUEUE_WAIT_S = 10.0
"""How long a session of a running backup waits behind somebody who waits for this backup: a deadlock that
PostgreSQL cannot see. A migration with a lock_timeout gives way first; one without is let through by an end."""

_LOCK_BATCH = 200


@dataclass(frozen=True)
class Snapshot:
    """An exported snapshot.

    :param name: for SET TRANSACTION SNAPSHOT.
    :param marker: `pg_current_snapshot()` inside it: what every reader must see.
    :param position: the log position (LSN) it stands for.
    :param taken_at: on the server's clock, just before it was taken: all that was committed by then is in it.
    :param exact: the first change after the snapshot is the first one after `position`.
    :param note: why it is not exact; empty if it is.
    """

    name: str
    marker: str
    position: str
    taken_at: datetime
    exact: bool
    note: str
    system_identifier: str | None
    timeline: int | None
    standby: bool = False


@dataclass(frozen=True)
class HeldSnapshot:
    """A snapshot whose tables are locked, with the catalog as it is in it."""

    snapshot: Snapshot
    catalog: Catalog
    not_included: tuple[str, ...]


class _StorageMovedError(Exception):
    """A table's storage changed between the snapshot and its lock: take another snapshot."""


@contextmanager
def hold_snapshot(
    address: Address,
    *,
    slot_wait: float = SLOT_WAIT_S,
    after_export: Callable[[Snapshot], None] = lambda snapshot: None,
) -> Iterator[HeldSnapshot]:
    """Export a snapshot, lock every table in it and prove that it can be read; hold it until the block ends.

    :param slot_wait: seconds to wait for a logical slot's consistent point.
    :param after_export: called between export and locking (tests provoke races there).
    :raises RefusedError: something could not be read whole; `obstacles` says what that may be.
    :raises BusyError: somebody keeps a table locked.
    """
    for _attempt in range(_ATTEMPTS):
        with export_snapshot(address, slot_wait=slot_wait) as snapshot:
            after_export(snapshot)
            session = connect(address)
            try:
                try:
                    held = _lock_and_check(session, snapshot)
                except (_StorageMovedError, psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                    continue
                except psycopg.errors.LockNotAvailable as error:
                    raise locked_by_others(address, LOCK_WAIT_S) from error
                yield held
                return
            finally:
                session.close()
    raise HoldfastError(
        f"tables of {address.url} were truncated, rewritten or dropped each time a snapshot was taken "
        f"({_ATTEMPTS} times): back up when no such job runs"
    )


def enter_snapshot(session: Connection, snapshot: Snapshot) -> None:
    """Begin a read-only transaction in the snapshot and make sure that it is the one.

    :raises HoldfastError: the snapshot is gone, or the session sees another one.
    """
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    session.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot.name)))
    seen = session.execute("select pg_catalog.pg_current_snapshot()::text").fetchone()
    if seen is None or seen[0] != snapshot.marker:
        raise HoldfastError(f"a session reads in snapshot {seen}, not in {snapshot.marker}: is a pooler in between?")


def try_sharing(address: Address) -> None:
    """Make sure that one session can read in the snapshot of another, as it can without a pooler in between.

    :raises HoldfastError: it reads in another one.
    :raises psycopg.Error: the snapshot cannot be exported, or is not known to the other session.
    """
    with connect(address) as holder, connect(address) as reader:
        enter_snapshot(reader, _by_transaction(holder, ""))


def _lock_and_check(session: Connection, snapshot: Snapshot) -> HeldSnapshot:
    enter_snapshot(session, snapshot)
    # Already looking up a table's size waits for its lock.
    session.execute(f"SET LOCAL lock_timeout = {int(LOCK_WAIT_S * 1000)}")
    refuse(obstacles(session))
    tables = read_tables(session)
    _lock([table for table in tables if table.kind in ("r", "p")], session)
    moved = session.execute(
        "select c.oid::regclass::text from pg_catalog.pg_class c where c.oid = any(%s::oid[]) and c.relkind = 'r' "
        "and c.relfilenode is distinct from pg_catalog.pg_relation_filenode(c.oid)",
        ([table.oid for table in tables],),
    ).fetchall()
    if moved:
        raise _StorageMovedError
    return HeldSnapshot(snapshot, read_catalog(session, tables), left_out(session))


def _lock(tables: list[Table], session: Connection) -> None:
    for start in range(0, len(tables), _LOCK_BATCH):
        batch = tables[start : start + _LOCK_BATCH]
        names = sql.SQL(", ").join(sql.SQL("ONLY ") + sql.Identifier(table.table_schema, table.name) for table in batch)
        session.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(names))


_LOCKED = """
select format('%%s by pid %%s (%%s)', l.relation::regclass, l.pid, coalesce(a.application_name, '?'))
from pg_catalog.pg_locks l left join pg_catalog.pg_stat_activity a on a.pid = l.pid
where l.locktype = 'relation' and l.mode = 'AccessExclusiveLock' and l.granted = %s and l.relation >= 16384
  and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
"""


def locked_by_others(address: Address, waited: float) -> BusyError:
    """Say who keeps a table locked.

    :param waited: seconds.
    """
    with connect(address) as session:
        locked = (
            "; ".join(row[0] for row in session.execute(_LOCKED, (True,))) or "a table whose lock is free again now"
        )
    return BusyError(
        f"tables stayed locked for {waited:.0f} s by an ACCESS EXCLUSIVE lock: {locked}. "
        "Let it finish, then back up again"
    )


def queued_behind(address: Address) -> BusyError:
    """Say who waits to change a table that is being backed up, and so keeps the backup's own readers waiting."""
    with connect(address) as session:
        waiting = "; ".join(row[0] for row in session.execute(_LOCKED, (False,))) or "nobody any more"
    return BusyError(
        f"somebody waits for this backup to change a table (ALTER, DROP, TRUNCATE, VACUUM FULL), and for "
        f"{QUEUE_WAIT_S:.0f} s every new reader queued behind: {waiting}. The backup has given way; "
        "start it again after it"
    )


@contextmanager
def export_snapshot(address: Address, *, slot_wait: float = SLOT_WAIT_S) -> Iterator[Snapshot]:
    """Export a snapshot and keep it importable until the block ends.

    With a temporary logical slot where the server can make one (position exact; the slot goes with its
    connection, also after a kill), else from a plain transaction (position approximate, with the reason).
    """
    with connect(address) as session:
        reason = next((each.what for each in why_no_slot(session)), "")
    if not reason:
        holder = connect(address, replication="database")
        try:
            snapshot, reason = _by_slot(address, holder, slot_wait)
            if snapshot is not None:
                yield snapshot
                return
        finally:
            holder.close()
    with connect(address) as plain:
        yield _by_transaction(plain, reason)
        plain.execute("ROLLBACK")


def why_no_slot(session: Connection) -> tuple[Obstacle, ...]:
    """Return everything that keeps a logical slot from being made, so that a backup's log position is approximate."""
    row = session.execute(
        "select current_setting('wal_level'), pg_catalog.pg_is_in_recovery(), r.rolreplication or r.rolsuper, "
        "current_setting('max_replication_slots')::int - (select count(*) from pg_catalog.pg_replication_slots), "
        "current_setting('max_wal_senders')::int - (select count(*) from pg_catalog.pg_stat_replication) "
        "from pg_catalog.pg_roles r where r.rolname = current_user"
    ).fetchone()
    if row is None:
        return (Obstacle("the role is unknown", "connect as another one"),)
    level, standby, may, slots, senders = row
    reasons = {
        Obstacle("the server is a standby", "back up from the primary"): standby,
        Obstacle(f"wal_level is {level}, not logical", "set wal_level = logical and restart"): level != "logical",
        Obstacle("the role has no REPLICATION right", f"alter role {session.info.user} replication"): not may,
        Obstacle("no replication slot is free", "raise max_replication_slots and restart"): slots < 1,
        Obstacle("no WAL sender is free", "raise max_wal_senders and restart"): senders < 1,
    }
    return tuple(reason for reason, holds in reasons.items() if holds)


def _server_now(address: Address) -> datetime:
    with connect(address) as session:
        row = session.execute("select pg_catalog.clock_timestamp()").fetchone()
    if row is None:
        raise HoldfastError(f"{address.url} did not tell its time")
    moment: datetime = row[0]
    return moment


def _by_slot(address: Address, holder: Connection, wait: float) -> tuple[Snapshot | None, str]:
    """Make the slot; its snapshot lives until the next command on `holder`."""
    system = holder.execute("IDENTIFY_SYSTEM").fetchone()
    taken_at = _server_now(address)
    started = time.monotonic()
    watchdog = threading.Timer(wait, holder.cancel_safe)
    watchdog.daemon = True
    watchdog.start()
    try:
        slot = holder.execute(
            f"CREATE_REPLICATION_SLOT holdfast_{secrets.token_hex(8)} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT"
        ).fetchone()
    except psycopg.errors.QueryCanceled:
        return (
            None,
            f"open transactions kept the slot waiting for {time.monotonic() - started:.0f} s: {_oldest(address)}",
        )
    except psycopg.Error as error:
        return None, f"no slot could be made: {' '.join(str(error).split())}"
    finally:
        watchdog.cancel()
    if slot is None or system is None:
        return None, "the server gave no slot"
    return (
        Snapshot(
            name=slot[2],
            marker=_marker(address, slot[2]),
            position=slot[1],
            taken_at=taken_at,
            exact=True,
            note="",
            system_identifier=str(system[0]),
            timeline=int(system[1]),
        ),
        "",
    )


def _oldest(address: Address) -> str:
    with connect(address) as session:
        rows = session.execute(
            "select format('pid %s of %s since %s', pid, usename, xact_start::timestamptz(0)) "
            "from pg_catalog.pg_stat_activity where backend_xid is not null and pid <> pg_catalog.pg_backend_pid() "
            "order by xact_start limit 3"
        ).fetchall()
    return "; ".join(row[0] for row in rows) or "they have ended since"


def _marker(address: Address, name: str) -> str:
    with connect(address) as session:
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        session.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(name)))
        row = session.execute("select pg_catalog.pg_current_snapshot()::text").fetchone()
        session.execute("ROLLBACK")
    if row is None:
        raise HoldfastError(f"{address.url} did not show its snapshot")
    return str(row[0])


def _by_transaction(session: Connection, reason: str) -> Snapshot:
    taken = session.execute("select pg_catalog.clock_timestamp()").fetchone()
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    row = session.execute(
        "select pg_catalog.pg_export_snapshot(), pg_catalog.pg_current_snapshot()::text, "
        "(case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn() "
        "else pg_catalog.pg_current_wal_insert_lsn() end)::text, "
        "(select system_identifier::text from pg_catalog.pg_control_system()), "
        "(select timeline_id from pg_catalog.pg_control_checkpoint()), pg_catalog.pg_is_in_recovery()"
    ).fetchone()
    if row is None or taken is None:
        raise HoldfastError("the server exported no snapshot")
    return Snapshot(
        name=row[0],
        marker=row[1],
        position=row[2],
        taken_at=taken[0],
        exact=False,
        note=reason,
        system_identifier=row[3],
        timeline=row[4],
        standby=row[5],
    )
