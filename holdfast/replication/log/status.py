"""State of an archive's replicas by one reading of the coordination store; the replicas are not asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from holdfast.archive.format.document import iso
from holdfast.replication.log import quorum, schema
from holdfast.replication.log.leader import Leader, leader
from holdfast.replication.log.log import missing_entries
from holdfast.replication.log.replicas import LogState, ReplicaRow, log_state, log_states, replicas
from holdfast.replication.log.source_lease import SourceLease, source_leases
from holdfast.replication.log.store import clock

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from holdfast.replication.log.quorum import Quorum


@dataclass(frozen=True)
class ReplicaStatus:
    """State of one replica.

    :param entries, size: of the log that it has still to execute, and their bytes, also of trimmed ones.
    :param seconds: since the first of these was appended; where that was trimmed, since its last sync; 0: none.
    :param lease_s: so long its lease runs on; 0: it is not active.
    :param silent_s, asked_again_s: so long it has not answered, and until it is asked again; None: it answers.
    """

    row: ReplicaRow
    entries: int
    size: int
    seconds: float
    lease_s: float
    silent_s: float | None = None
    asked_again_s: float | None = None

    def describe(self) -> dict[str, Any]:
        """Return it as `replica status --json` prints it."""
        row = self.row
        return {
            "name": row.name,
            "url": row.url,
            "pointer": row.pointer,
            "entries_behind": self.entries,
            "bytes_behind": self.size,
            "seconds_behind": round(self.seconds, 1),
            "epoch": row.epoch,
            "lease_s": round(self.lease_s, 1),
            "active": self.lease_s > 0,
            "active_until": iso(datetime.fromtimestamp(row.active_until, UTC)) if row.active_until else None,
            "lost": row.is_lost,
            "lost_reason": row.lost_reason or None,
            "recovers_from": row.recovers_from or None,
            "silent_s": None if self.silent_s is None else round(self.silent_s, 1),
            "asked_again_s": None if self.asked_again_s is None else round(self.asked_again_s, 1),
        }


@dataclass(frozen=True)
class ArchiveStatus:
    """State of an archive's replicas.

    :param leader_s: so long the leader's lease runs on; 0: another one may lead.
    :param pending: quorums, each with the seconds left; `missing`: indexes of entries without files, seconds known.
    :param now: the store's time.
    """

    log: LogState
    replicas: tuple[ReplicaStatus, ...]
    leader: Leader
    leader_s: float
    pending: tuple[tuple[Quorum, float], ...]
    missing: tuple[tuple[int, float], ...]
    sources: tuple[SourceLease, ...] = ()
    now: float = 0.0

    def describe(self) -> dict[str, Any]:
        """Return it as `replica status --json` prints it."""
        log = self.log
        return {
            "archive": log.archive,
            "name": log.name,
            "store": log.store,
            "head": log.head,
            "log_start": log.start,
            "leader": self.leader.name if self.leader_s else None,
            "leader_epoch": self.leader.epoch,
            "leader_lease_s": round(self.leader_s, 1),
            "quorum_index": log.quorum,
            "pending_quorums": [
                {
                    "entry": quorum.index,
                    "source": quorum.source,
                    "size": quorum.size,
                    "replicas": list(quorum.votes),
                    "seconds_left": round(remaining, 1),
                }
                for quorum, remaining in self.pending
            ],
            "missing": [{"entry": index, "for_s": round(seconds, 1)} for index, seconds in self.missing],
            "sources": [source.value(self.now) for source in self.sources],
            "replicas": [one.describe() for one in self.replicas],
        }


def status(connection: Connection, archive: str | None = None) -> list[ArchiveStatus]:
    """Return the state of one archive's replicas, or of all archives."""
    now = clock(connection)
    logs = log_states(connection) if archive is None else [log_state(connection, archive)]
    return [_archive_status(connection, log, now) for log in logs]


def _archive_status(connection: Connection, log: LogState, now: float) -> ArchiveStatus:
    rows = tuple(_status(connection, log, row, now) for row in replicas(connection, log.archive))
    leads = leader(connection, log.archive)
    waiting = tuple((pending, max(0.0, pending.deadline - now)) for pending in quorum.pending(connection, log.archive))
    missing = tuple((index, max(0.0, now - since)) for index, since in missing_entries(connection, log.archive))
    leases = tuple(source_leases(connection, log.archive))
    return ArchiveStatus(log, rows, leads, max(0.0, leads.until - now), waiting, missing, leases, now)


def _status(connection: Connection, log: LogState, row: ReplicaRow, now: float) -> ReplicaStatus:
    e = schema.entries.c
    behind = max(0, log.head + 1 - max(row.pointer, 1))
    size, first = 0, now
    if behind:
        query = sa.select(sa.func.coalesce(sa.func.sum(e.size), 0), sa.func.min(e.appended_at))
        kept = query.where(e.archive == log.archive, e.index >= max(row.pointer, log.start))
        size, first = connection.execute(kept).one()
        if row.pointer < log.start:
            first = row.synced_at
    return ReplicaStatus(
        row=row,
        entries=behind,
        size=int(size) + (row.trimmed_bytes if behind else 0),
        seconds=max(0.0, now - (first or now)),
        lease_s=max(0.0, row.active_until - now),
        silent_s=max(0.0, now - row.silent_since) if row.silent_since else None,
        asked_again_s=max(0.0, row.ask_again_at - now) if row.silent_since else None,
    )
