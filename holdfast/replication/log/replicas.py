"""Replicas of an archive, with their leases and pointers. One transaction each.

A pointer says how far its replica has come in the log. A replica is *active* while its lease runs. All processes that
act for it share its epoch, and any of them renews the lease. Who comes after the lease has ended begins a new epoch,
and all requests of the old one are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from holdfast.common.errors import RefusedError, UsageError
from holdfast.replication.log import schema
from holdfast.replication.log.errors import EpochOverError, LostReplicaError
from holdfast.replication.log.store import clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from holdfast.archive.format.model import LogPlace

LEASE_S = 900.0
"""So long a replica counts as active after it was last heard of: three times the interval of its syncs, or longer."""

_NEW = "it is new"
"""Of earlier releases, whose new replicas were waited for before they had anything."""

JOINING = "it is new, and has no vote yet"

_R = schema.replicas.c


@dataclass(frozen=True)
class ReplicaRow:
    """Row of a replica in the coordination store; times in seconds since 1970 by its clock.

    :param pointer: index of the entry that it executes next; 0: it never had any.
    :param recovers_from: the replica it is being recovered from; "": it is not.
    :param silent_since: when it first did not answer in time, 0: it answers; not asked until `ask_again_at`.
    :param trimmed_bytes: of entries that it lacks and that the log no longer has.
    :param joined_by, leaves_by: index of the entry that has added, or removes it; 0: none.
    """

    name: str
    url: str
    pointer: int
    epoch: int
    active_until: float
    is_lost: bool
    lost_reason: str
    recovers_from: str
    synced_at: float
    silent_since: float = 0.0
    ask_again_at: float = 0.0
    trimmed_bytes: int = 0
    joined_by: int = 0
    leaves_by: int = 0

    def is_active(self, now: float) -> bool:
        """Return whether the lease runs."""
        return self.active_until > now

    @property
    def is_new(self) -> bool:
        """Return whether it was never recovered: there need not be an archive at its place."""
        return self.is_lost and self.lost_reason in (_NEW, JOINING)

    @property
    def is_joining(self) -> bool:
        """Return whether it was added by an entry and never recovered: it has no vote."""
        return self.is_lost and self.lost_reason == JOINING


@dataclass(frozen=True)
class LogState:
    """State of an archive's update log in a store.

    :param head: index of the last entry; `start`: of the oldest one kept; `quorum`: of the last acknowledgement.
    """

    archive: str
    name: str
    store: str
    head: int
    start: int
    quorum: int = 0


@dataclass(frozen=True)
class Acting:
    """A process that acts for a replica, in one epoch of it."""

    archive: str
    name: str
    epoch: int


def log_states(connection: Connection) -> list[LogState]:
    """Return the logs of all archives."""
    c = schema.archives.c
    query = sa.select(c.archive, c.name, c.store, c.head, c.log_start, c.quorum_index).order_by(c.name, c.archive)
    return [LogState(*row) for row in connection.execute(query)]


def log_state(connection: Connection, archive: str) -> LogState:
    """Return the log of an archive, or raise UsageError."""
    c = schema.archives.c
    query = sa.select(c.archive, c.name, c.store, c.head, c.log_start, c.quorum_index).where(c.archive == archive)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise UsageError(f"this coordination store knows no archive {archive}: see 'holdfast replica status'")
    return LogState(*row)


def replicas(connection: Connection, archive: str) -> list[ReplicaRow]:
    """Return the replicas of an archive, by name."""
    query = sa.select(*(_R[name] for name in ReplicaRow.__dataclass_fields__)).where(_R.archive == archive)
    return [ReplicaRow(*row) for row in connection.execute(query.order_by(_R.name))]


def replica(connection: Connection, archive: str, name: str) -> ReplicaRow:
    """Return the replica of a name, or raise UsageError."""
    there = replicas(connection, archive)
    for row in there:
        if row.name == name:
            return row
    names = ", ".join(row.name for row in there) or "none"
    raise UsageError(f"there is no replica {name} of this archive; it has: {names}")


def register(
    connection: Connection, log: LogState, *, name: str, url: str, ends: Mapping[str, str], streams: Mapping[str, str]
) -> None:
    """Begin the update log of an archive with its first replica; UsageError where it has one."""
    registered = connection.execute(
        sa.select(schema.archives.c.archive).where(schema.archives.c.archive == log.archive)
    )
    if registered.first() is not None:
        raise UsageError(f"archive {log.name} has replicas in this store already: another one is to be an empty place")
    row = {"archive": log.archive, "name": log.name, "store": log.store, "head": log.head, "log_start": log.start}
    connection.execute(schema.archives.insert(), row)
    _insert(connection, log.archive, name, url, pointer=log.head + 1)
    for source in sorted({*ends, *streams}):
        put_ends(connection, log.archive, source, (ends.get(source, ""), streams.get(source, "")))


def change_archive(connection: Connection, archive: str, **values: object) -> None:
    """Change the row of an archive."""
    connection.execute(schema.archives.update().where(schema.archives.c.archive == archive).values(**values))


def insert_source(connection: Connection, archive: str, source: str, **values: object) -> None:
    """Insert the row of a source, with values of its columns."""
    row = {"archive": archive, "source": source, "end_position": "", "stream_end": "", "owner": "", "owned_until": 0.0}
    connection.execute(schema.sources.insert(), row | values)


def put_ends(connection: Connection, archive: str, source: str, ends: tuple[str, str]) -> None:
    """Set the end positions of a source's backups and of its changes."""
    s, values = schema.sources.c, {"end_position": ends[0], "stream_end": ends[1]}
    update = schema.sources.update().where(s.archive == archive, s.source == source).values(**values)
    if not connection.execute(update).rowcount:
        insert_source(connection, archive, source, **values)


def add(connection: Connection, archive: str, *, name: str, url: str, lost: str = _NEW) -> None:
    """Add a new, so lost, replica; the same again changes nothing. UsageError: name or place are another's."""
    log_state(connection, archive)
    for row in replicas(connection, archive):
        if (row.name, row.url) == (name, url):
            return
        if row.name == name:
            raise UsageError(f"replica {name} is at {row.url}: choose another name, or remove that one first")
        if row.url == url:
            raise UsageError(f"{url} is replica {row.name} already")
    _insert(connection, archive, name, url, pointer=0, lost=lost)


def _insert(connection: Connection, archive: str, name: str, url: str, *, pointer: int, lost: str = "") -> None:
    connection.execute(
        schema.replicas.insert(),
        {
            "archive": archive,
            "name": name,
            "url": url,
            "pointer": pointer,
            "epoch": first_epoch(connection, archive),
            "active_until": 0.0,
            "is_lost": bool(lost),
            "lost_reason": lost,
            "recovers_from": "",
            "synced_at": clock(connection),
        },
    )


def first_epoch(connection: Connection, archive: str) -> int:
    """Return a new replica's first epoch: above those of removed ones, whose processes may still run."""
    c = schema.archives.c
    return int(connection.execute(sa.select(c.epochs).where(c.archive == archive)).scalar_one())


def check_removable(connection: Connection, archive: str, name: str, *, force: bool) -> None:
    """Check that a replica has nothing that would be lost with it, unless forced (RefusedError)."""
    row = replica(connection, archive, name)
    others = [row for row in replicas(connection, archive) if row.name != name and not row.is_lost]
    if row.is_lost and not others and not force:
        raise RefusedError(
            f"all replicas are lost, {name} too, and what it has may be at no other place: 'holdfast replica elect' "
            "one of them first, or say --force"
        )
    if not row.is_lost and not force:
        if not others:
            raise RefusedError(f"{name} is the only replica that is not lost: removing it needs --force")
        if all(other.pointer < row.pointer for other in others):
            raise RefusedError(
                f"{name} has executed entries that no other replica has yet (up to {row.pointer - 1}): let one of them "
                "be synced first, or say --force"
            )
    _check_entries(connection, archive, name, others if not force else [])
    used = [row.name for row in replicas(connection, archive) if row.recovers_from == name]
    if used and not force:
        raise RefusedError(f"{', '.join(used)} is being recovered from {name}: let that end, or say --force")


def forget(connection: Connection, archive: str, name: str) -> None:
    """Delete the row of a replica, with its votes and leases on sources."""
    row = replica(connection, archive, name)
    a, v, s = schema.archives.c, schema.votes.c, schema.sources.c
    of_replica = s.owner.startswith(f"{row.name}, ", autoescape=True)  # the names of replicas have no comma
    connection.execute(
        schema.sources.update().where(s.archive == archive, of_replica).values(owner="", owned_until=0.0, process="")
    )
    connection.execute(schema.votes.delete().where(v.archive == archive, v.replica == row.name))
    connection.execute(schema.replicas.delete().where(_R.archive == archive, _R.name == row.name))
    archives = schema.archives.update().where(a.archive == archive)
    connection.execute(archives.where(a.leader == row.name).values(leader="", leader_until=0.0))
    connection.execute(archives.where(a.epochs <= row.epoch).values(epochs=row.epoch + 1))


def _check_entries(connection: Connection, archive: str, name: str, others: Sequence[ReplicaRow]) -> None:
    if not others:
        return
    e = schema.entries.c
    furthest = max(row.pointer for row in others)
    query = sa.select(sa.func.min(e.index)).where(e.archive == archive, e.appended_by == name, e.index >= furthest)
    if (index := connection.execute(query).scalar_one_or_none()) is not None:
        raise RefusedError(
            f"what entry {index} adds may be at {name} only: no other replica has executed it yet, and without it none "
            "can go on. Let one of them be synced first, or say --force"
        )


def activate(connection: Connection, archive: str, name: str, *, lease: float = LEASE_S) -> Acting:
    """Begin or continue to act for a replica, and renew its lease; LostReplicaError where it is lost."""
    row = replica(connection, archive, name)
    if row.is_lost:
        raise lost(row)
    return take_lease(connection, archive, row, lease)


def take_lease(connection: Connection, archive: str, row: ReplicaRow, lease: float) -> Acting:
    """Renew a lease that runs, else begin a new epoch."""
    now = clock(connection)
    epoch = row.epoch if row.is_active(now) else row.epoch + 1
    was = Acting(archive, row.name, row.epoch)
    change_row(connection, was, epoch=epoch, active_until=now + lease, silent_since=0.0, ask_again_at=0.0)
    return Acting(archive, row.name, epoch)


def guard(connection: Connection, acting: Acting) -> ReplicaRow:
    """Return a replica's row, if this process still acts for it.

    :raises EpochOverError, LostReplicaError: another process has begun a new epoch; or it is lost.
    """
    row = replica(connection, acting.archive, acting.name)
    if row.epoch != acting.epoch:
        raise EpochOverError(
            f"replica {acting.name} was activated again while this process was away (epoch {row.epoch}, before "
            f"{acting.epoch}): nothing was changed. Start again"
        )
    if row.is_lost:
        raise lost(row)
    return row


def move_pointer(connection: Connection, acting: Acting, *, index: int) -> None:
    """Record that a replica has executed all entries up to one; noted already is no failure."""
    row = guard(connection, acting)
    if row.pointer <= index:
        change_row(connection, acting, pointer=index + 1, synced_at=clock(connection))


def renew(connection: Connection, acting: Acting, *, lease: float = LEASE_S) -> None:
    """Renew the lease of a replica."""
    guard(connection, acting)
    change_row(connection, acting, active_until=clock(connection) + lease)


def note_synced(connection: Connection, acting: Acting) -> None:
    """Record a complete sync of a replica, and renew its lease."""
    renew(connection, acting)
    change_row(connection, acting, synced_at=clock(connection))


def why_lost(row: ReplicaRow, place: LogPlace) -> str:
    """Return in words why a replica has to be recovered by what its archive says; "" where it need not be.

    :param row: read before the place was: the store, or the replica, may be an older copy.
    """
    if place.recovering:
        return "its archive says that it was not recovered to its end"
    if place.index < row.pointer - 1:
        return f"it ends at entry {place.index}, and had executed {row.pointer - 1}: it is an older copy of itself"
    return ""


def mark_lost(connection: Connection, archive: str, name: str, reason: str) -> None:
    """Mark a replica as lost, unless it is; RefusedError where no other is good."""
    row = replica(connection, archive, name)
    if row.is_lost:
        return
    if all(row.is_lost for row in replicas(connection, archive) if row.name != name):
        raise RefusedError(
            f"{name} has to be recovered ({reason}), and there is no other replica that is not lost: see 'holdfast "
            "replica status', then 'holdfast replica elect'"
        )
    change_row(connection, Acting(archive, name, row.epoch), is_lost=True, lost_reason=reason)


def change_row(connection: Connection, acting: Acting, **values: object) -> None:
    """Change a replica's row, if its epoch is unchanged (EpochOverError)."""
    updated = connection.execute(
        schema.replicas.update()
        .where(_R.archive == acting.archive, _R.name == acting.name, _R.epoch == acting.epoch)
        .values(**values)
    )
    if updated.rowcount != 1:
        raise EpochOverError(f"replica {acting.name} was changed by another process at the same time: start again")


def lost(row: ReplicaRow) -> LostReplicaError:
    """Return the error for a lost replica."""
    return LostReplicaError(
        f"replica {row.name} is lost ({row.lost_reason}): holdfast replica recover {row.name} makes it anew"
    )


def names(rows: Sequence[ReplicaRow]) -> str:
    """Return the names of replicas, for people."""
    return ", ".join(row.name for row in rows) or "none"
