"""Exported snapshots with their log positions (LSN), read from other sessions."""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Self

import psycopg
from psycopg import sql
from pydantic import TypeAdapter, ValidationError

from holdfast.common.errors import HoldfastError, UsageError
from holdfast.postgresql.connection.session import connect, session_role
from holdfast.postgresql.snapshot.obstacles import Obstacle
from holdfast.postgresql.snapshot.readers_first import become_reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection

SLOT_WAIT_S = 60.0
"""A logical slot waits for every transaction that is open; after this the position is read beside it."""


class SnapshotGoneError(HoldfastError):
    """Loss of a snapshot by the end of its session.

    The session's locks have ended with it.
    """


@dataclass(frozen=True)
class Snapshot:
    """An exported snapshot.

    :param name: for SET TRANSACTION SNAPSHOT.
    :param marker: `pg_current_snapshot()` inside it: what every reader must see.
    :param position: the log position (LSN) it stands for.
    :param taken_at: on the server's clock, just before it was taken: all that was committed by then is in it.
    :param exact: the first change after the snapshot is the first one after `position`.
    :param note: why it is not exact; empty if it is.
    :param database_oid: of its database.
    :param ddl_waits: readers of it go before those who wait to change its tables.
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
    database_oid: int | None = None
    ddl_waits: bool = False

    def to_json(self) -> str:
        """Return the snapshot as JSON for another process; it holds no secret."""
        return _SNAPSHOT.dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the snapshot that `to_json` described.

        :raises UsageError: it described none.
        """
        try:
            return cls(**vars(_SNAPSHOT.validate_json(text)))
        except ValidationError as error:
            raise UsageError("this describes no snapshot: start jobs by command or operator") from error


_SNAPSHOT = TypeAdapter(Snapshot)


_GONE = (
    psycopg.errors.UndefinedObject,  # since PostgreSQL 17
    psycopg.errors.InvalidParameterValue,
    psycopg.errors.ObjectNotInPrerequisiteState,
)
"""What the server says of a snapshot that nobody exports any more."""


def enter_snapshot(session: Connection, snapshot: Snapshot) -> None:
    """Begin a read-only transaction in the snapshot, and check it.

    :raises SnapshotGoneError: nobody holds it any more.
    :raises HoldfastError: the session sees another one.
    """
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        session.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot.name)))
    except _GONE as error:
        raise SnapshotGoneError("the snapshot is gone: the session that held it has ended") from error
    seen = session.execute("select pg_catalog.pg_current_snapshot()::text").fetchone()
    if seen is None or seen[0] != snapshot.marker:
        raise HoldfastError(f"a session reads in snapshot {seen}, not in {snapshot.marker}: is a pooler in between?")
    if snapshot.ddl_waits:
        become_reader(session)


def try_sharing(address: Address) -> None:
    """Check that one session can read in the snapshot of another.

    A pooler in between may prevent that.

    :raises HoldfastError: it reads in another one, or does not know the snapshot.
    :raises psycopg.Error: the snapshot cannot be exported.
    """
    with connect(address) as holder, connect(address) as reader:
        enter_snapshot(reader, _by_transaction(holder, ""))


@contextmanager
def export_snapshot(address: Address, *, slot_wait: float = SLOT_WAIT_S) -> Iterator[Snapshot]:
    """Export a snapshot and keep it importable until the block ends.

    With a temporary logical slot where the server can make one (position exact; the slot goes with its
    connection, also after a kill), else from a plain transaction (position approximate, with the reason).
    """
    with connect(address) as session:
        reason = next((each.what for each in why_not_exact(session)), "")
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


@contextmanager
def export_plain(address: Address) -> Iterator[Snapshot]:
    """Export a snapshot without a slot and keep it importable until the block ends.

    Its position is approximate.
    """
    with connect(address) as session:
        yield _by_transaction(session, "it was not asked for")
        session.execute("ROLLBACK")


def why_not_exact(session: Connection) -> tuple[Obstacle, ...]:
    """Return the obstacles to an exact log position.

    No slot can be made, or the role that logs in may not ask for one.

    Who logs in is asked for the right of replication, too, before it becomes another one by ALTER ROLE … SET role.
    """
    row = session.execute(
        "select rolname, rolreplication or rolsuper from pg_catalog.pg_roles where rolname = session_user"
    ).fetchone()
    obstacles = why_no_slot(session)
    if row is None or row[1] or row[0] == session_role(session):
        return obstacles
    mended = f"alter role {row[0]} replication"
    return (*obstacles, Obstacle(f"{row[0]}, who logs in, has no REPLICATION right", mended))


def why_no_slot(session: Connection) -> tuple[Obstacle, ...]:
    """Return the obstacles to making a logical replication slot.

    Without a slot a backup's log position is approximate.
    """
    row = session.execute(
        "select current_setting('max_replication_slots')::int - (select count(*) from pg_catalog.pg_replication_slots)"
        ", current_setting('max_wal_senders')::int - (select count(*) from pg_catalog.pg_stat_replication)"
    ).fetchone()
    slots, senders = row or (0, 0)
    reasons = {
        Obstacle("no replication slot is free", "raise max_replication_slots and restart"): slots < 1,
        Obstacle("no WAL sender is free", "raise max_wal_senders and restart"): senders < 1,
    }
    return (*why_no_decoding(session), *(reason for reason, holds in reasons.items() if holds))


def why_no_decoding(session: Connection) -> tuple[Obstacle, ...]:
    """Return the obstacles to logical decoding, also with an existing slot."""
    row = session.execute(
        "select current_setting('wal_level'), pg_catalog.pg_is_in_recovery(), r.rolreplication or r.rolsuper "
        "from pg_catalog.pg_roles r where r.rolname = current_user"
    ).fetchone()
    if row is None:
        return (Obstacle("the role is unknown", "connect as another one"),)
    level, standby, may = row
    reasons = {
        Obstacle("the server is a standby", "back up from the primary"): standby,
        Obstacle(f"wal_level is {level}, not logical", "set wal_level = logical and restart"): level != "logical",
        Obstacle("the role has no REPLICATION right", f"alter role {session_role(session)} replication"): not may,
    }
    return tuple(reason for reason, holds in reasons.items() if holds)


def _server_now(address: Address) -> tuple[datetime, int]:
    """Return the server's clock, and the database's oid."""
    with connect(address) as session:
        row = session.execute(
            "select pg_catalog.clock_timestamp(), oid::int8 from pg_catalog.pg_database "
            "where datname = pg_catalog.current_database()"
        ).fetchone()
    if row is None:
        raise HoldfastError(f"{address.url} did not tell its time")
    return row[0], row[1]


def _by_slot(address: Address, holder: Connection, wait: float) -> tuple[Snapshot | None, str]:
    """Make the slot; its snapshot lives until the next command on `holder`."""
    system = holder.execute("IDENTIFY_SYSTEM").fetchone()
    taken_at, database_oid = _server_now(address)
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
            database_oid=database_oid,
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
        "(select timeline_id from pg_catalog.pg_control_checkpoint()), pg_catalog.pg_is_in_recovery(), "
        "(select oid::int8 from pg_catalog.pg_database where datname = pg_catalog.current_database())"
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
        database_oid=row[6],
    )
