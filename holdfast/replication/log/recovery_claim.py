"""Claims of recoveries: who recovers a lost replica, from which one, how far. One transaction each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.common.errors import BusyError, RefusedError, UsageError
from holdfast.replication.log.errors import EpochOverError
from holdfast.replication.log.membership import check_counts, join_recovered
from holdfast.replication.log.replicas import LEASE_S, Acting, change_row, log_state, replica, replicas
from holdfast.replication.log.store import clock

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from holdfast.replication.log.replicas import ReplicaRow


def choose(
    connection: Connection, archive: str, name: str, *, source: str | None = None
) -> tuple[ReplicaRow, ReplicaRow]:
    """Return the rows of a lost replica that may be recovered now, and of its source.

    :param source: a replica; None: the one that has executed most.
    :raises UsageError, RefusedError: the source is none; or the replica is not lost, or all are.
    :raises BusyError: another recovery is under way, or its addition does not count yet.
    """
    row = replica(connection, archive, name)
    now = clock(connection)
    if not row.is_lost:
        raise RefusedError(f"replica {name} is not lost: 'holdfast replica sync {name}' brings it up to date")
    if row.recovers_from and row.is_active(now):
        raise BusyError(
            f"replica {name} is being recovered from {row.recovers_from}; if that has died, its lease ends in "
            f"{row.active_until - now:.0f} s"
        )
    good = [row for row in replicas(connection, archive) if not row.is_lost]
    if not good:
        raise RefusedError(
            "all replicas are lost: 'holdfast replica status' shows what each of them has; 'holdfast replica elect' "
            "makes one of them the one to go on with"
        )
    if source is not None and source not in {row.name for row in good}:
        raise UsageError(f"{source} is no replica to recover from; these are: {', '.join(row.name for row in good)}")
    chosen = max((row for row in good if source in (None, row.name)), key=lambda row: (row.pointer, row.name))
    if row.joined_by and not row.pointer:
        check_counts(connection, archive, row.joined_by)
    succeeded = max(log_state(connection, archive).quorum, row.joined_by)
    if chosen.pointer <= succeeded:
        raise RefusedError(
            f"{chosen.name} has not executed entry {succeeded} yet, which a quorum has, or which names the replicas: a "
            f"replica made from it would lack that. 'holdfast replica sync {chosen.name}' first"
        )
    return row, chosen


def claim(
    connection: Connection, archive: str, name: str, *, source: str | None = None, lease: float = LEASE_S
) -> tuple[Acting, ReplicaRow]:
    """Begin the recovery of a lost replica in a new epoch, with the pointer of its source."""
    row, chosen = choose(connection, archive, name, source=source)
    acting = Acting(archive, name, row.epoch + 1)
    change_row(
        connection,
        Acting(archive, name, row.epoch),
        epoch=acting.epoch,
        active_until=clock(connection) + lease,
        recovers_from=chosen.name,
        pointer=chosen.pointer,
        trimmed_bytes=0,
    )
    return acting, chosen


def go_on(connection: Connection, acting: Acting, *, lease: float = LEASE_S) -> None:
    """Renew the lease of a recovery, or raise EpochOverError."""
    _recovering(connection, acting)
    change_row(connection, acting, active_until=clock(connection) + lease)


def take_pointer(connection: Connection, acting: Acting, *, pointer: int) -> None:
    """Set the pointer of a replica that has the content of all earlier entries.

    :raises EpochOverError, RefusedError: another recovery has begun; or the source is lost, or the log trimmed.
    """
    row = _recovering(connection, acting)
    source = replica(connection, acting.archive, row.recovers_from)
    start = log_state(connection, acting.archive).start
    if source.is_lost or start > pointer:
        why = f"{source.name} was lost meanwhile" if source.is_lost else f"the log begins at {start} by now"
        raise RefusedError(f"replica {acting.name} cannot go on at entry {pointer}: {why}. Recover it again")
    change_row(connection, acting, pointer=pointer)


def finish(connection: Connection, acting: Acting) -> None:
    """Mark a replica as no longer lost, as the last step; a new one is a member from then on.

    :raises EpochOverError, RefusedError: the lease is over; or the log was trimmed beyond its pointer.
    """
    row = _recovering(connection, acting)
    if not row.is_active(clock(connection)):
        raise EpochOverError(f"the recovery of {acting.name} took longer than its lease: recover it again")
    start = log_state(connection, acting.archive).start
    if start > row.pointer:
        raise RefusedError(f"the log begins at {start}, and {acting.name} needs entry {row.pointer}: recover it again")
    ended = {
        "is_lost": False,
        "lost_reason": "",
        "recovers_from": "",
        "silent_since": 0.0,
        "ask_again_at": 0.0,
    }
    change_row(connection, acting, **ended, synced_at=clock(connection))
    if row.is_joining:
        join_recovered(connection, acting.archive, acting.name)


def give_up(connection: Connection, acting: Acting) -> None:
    """End a recovery, so that another one may begin at once."""
    _recovering(connection, acting)
    change_row(connection, acting, active_until=0.0, recovers_from="")


def _recovering(connection: Connection, acting: Acting) -> ReplicaRow:
    row = replica(connection, acting.archive, acting.name)
    if row.epoch != acting.epoch or not row.is_lost or not row.recovers_from:
        raise EpochOverError(f"the recovery of {acting.name} was given up, or begun again by another process")
    return row
