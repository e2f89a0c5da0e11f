"""Samples of an archive's replicas, from one reading of their coordination store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.metrics.catalogue import sample
from holdfast.replication.log import quorum
from holdfast.replication.log.status import status
from holdfast.replication.log.store import opened
from holdfast.replication.work.sync import log_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sqlalchemy import Connection

    from holdfast.metrics.catalogue import Sample
    from holdfast.replication.log.status import ArchiveStatus, ReplicaStatus


@dataclass(frozen=True)
class FollowedLog:
    """The update log that an archive follows; `failed` is its number of entries whose quorum failed."""

    status: ArchiveStatus
    failed: int


def ask(address: str | None, archive: str | None, urls: Collection[str]) -> FollowedLog:
    """Return the update log of an archive.

    :param address: of the coordination store; default is that of the environment.
    :param archive: its id; without one, the archive with a replica at these URLs.
    :raises HoldfastError: the store's address is missing, it cannot be reached, or it has no such archive.
    """
    with opened(address) as coordination:
        identity = archive or log_at(coordination, urls).archive
        return coordination.run(lambda c: _read(c, identity))


def _read(connection: Connection, archive: str) -> FollowedLog:
    (found,) = status(connection, archive)
    return FollowedLog(found, len(quorum.failed(connection, archive, found.log.start, found.log.head)))


def samples(found: FollowedLog, label: str) -> Iterator[Sample]:
    """Yield the samples of a log and of the replicas that follow it."""
    log = found.status
    yield sample("holdfast_coordination_store_up", 1, label)
    yield sample("holdfast_log_head_entry", log.log.head, label)
    for each in log.replicas:
        yield from _replica(each, label)
    yield sample("holdfast_quorums_pending", len(log.pending), label)
    yield sample("holdfast_quorums_failed", found.failed, label)
    yield sample("holdfast_entries_without_files", len(log.missing), label)


def _replica(each: ReplicaStatus, label: str) -> Iterator[Sample]:
    labels = (label, each.row.name)
    yield sample("holdfast_replica_behind_entries", each.entries, *labels)
    yield sample("holdfast_replica_behind_bytes", each.size, *labels)
    yield sample("holdfast_replica_behind_seconds", each.seconds, *labels)
    yield sample("holdfast_replica_lost", each.row.is_lost, *labels)
    yield sample("holdfast_replica_active", each.lease_s > 0, *labels)
    yield sample("holdfast_replica_silent_seconds", each.silent_s or 0.0, *labels)
