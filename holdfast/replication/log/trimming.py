"""Trimming of the update log: entries that every replica has executed go, and a replica away too long is lost.

The start of the log moves in one transaction; the entries before it are deleted in later ones. Source of the rules:
the paper that docs/replication.md names, "Log clearing". `specs/LogTrimming.tla` checks them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import sqlalchemy as sa

from holdfast.common.errors import RefusedError, UsageError
from holdfast.replication.log import quorum, schema
from holdfast.replication.log.consistency_check import run_agreed
from holdfast.replication.log.replicas import change_archive, log_state, names, replicas
from holdfast.replication.log.settings import MAX_KEEP, MIN_KEEP
from holdfast.replication.log.store import clock
from holdfast.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from holdfast.replication.log.consistency_check import Answers
    from holdfast.replication.log.replicas import LogState, ReplicaRow
    from holdfast.replication.log.silence import NotAsked
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.storage import ObjectStore

BATCH = 250
"""Entries that one transaction deletes: a few milliseconds of the store's time, and then as long for others alone."""

_LONGEST_PAUSE_S = 0.1
_WORTH = 10
"""No replica is lost where that wins less than one in so many of the entries that are kept for it."""


@dataclass(frozen=True)
class Trimmed:
    """Result of a trimming, or of its dry run.

    :param start: index of the oldest entry that is kept.
    :param waits_for: replicas that keep entries from going; `spared`: away for long, whose loss would win little.
    """

    start: int
    removed: int
    lost: tuple[str, ...]
    waits_for: tuple[str, ...]
    spared: tuple[str, ...] = ()
    not_asked: tuple[NotAsked, ...] = field(default=(), compare=False)


def trim(
    store: CoordinationStore,
    archive: str,
    *,
    min_keep: int = MIN_KEEP,
    max_keep: int = MAX_KEEP,
    dry_run: bool = False,
    places: Callable[[str], ObjectStore] = open_store,
) -> Trimmed:
    """Remove entries that no replica needs; all readable replicas are asked first how far they are.

    :param min_keep: so many of the newest stay in any case.
    :param max_keep: so many are kept for an inactive replica: then it is lost, where that wins a tenth as many.
    :raises UsageError, RefusedError: the numbers contradict each other; or every replica would be lost.
    """
    if not 0 <= min_keep <= max_keep:
        raise UsageError(f"--min-keep {min_keep} must not be negative, nor above --max-keep {max_keep}")

    def move(connection: Connection, answers: Answers) -> Trimmed:
        moved = move_start(connection, archive, min_keep, max_keep, dry_run=dry_run)
        return replace(moved, not_asked=answers.not_asked)

    trimmed = run_agreed(store, archive, move, places)
    if not dry_run:
        # The start of the log is what counts: entries before it may go at any time, and in any pieces.
        oldest = store.run(lambda connection: oldest_entry(connection, archive), serializable=False)
        for first in range(oldest or trimmed.start, trimmed.start, BATCH):
            began = time.monotonic()
            upto = min(trimmed.start, first + BATCH)
            store.run(partial(delete_some, archive=archive, first=first, upto=upto), serializable=False)
            if upto < trimmed.start:
                time.sleep(min(time.monotonic() - began, _LONGEST_PAUSE_S))
    return trimmed


def move_start(connection: Connection, archive: str, min_keep: int, max_keep: int, *, dry_run: bool = False) -> Trimmed:
    """Move the start of the log as far as it may go; replicas that need earlier entries are lost."""
    log = log_state(connection, archive)
    now = clock(connection)
    rows = [row for row in replicas(connection, archive) if not row.is_lost or row.recovers_from]
    start, lost, spared = _new_start(log, rows, now, min_keep, max_keep)
    waits = tuple(row.name for row in rows if log.start < row.pointer == start <= log.head)
    if start <= log.start:
        waits = tuple(row.name for row in rows if row.pointer <= log.start <= log.head)
        return Trimmed(log.start, 0, (), waits, _names(spared))
    kept = [row for row in rows if not row.is_lost and row not in lost]
    if not kept:
        raise RefusedError(
            f"trimming up to {start} would lose every replica ({names(lost)}): sync one of them, or raise --max-keep"
        )
    if not dry_run:
        r = schema.replicas.c
        _note_trimmed_bytes(connection, log, start)
        for row in lost:
            connection.execute(
                schema.replicas.update()
                .where(r.archive == archive, r.name == row.name, r.epoch == row.epoch)
                .values(
                    is_lost=True,
                    lost_reason=row.lost_reason or f"it was away, and needs entry {row.pointer}, which was trimmed",
                    recovers_from="",
                )
            )
        change_archive(connection, archive, log_start=start)
        quorum.forget(connection, archive, start)
    return Trimmed(start, start - log.start, _names(lost), waits, _names(spared))


def _names(rows: list[ReplicaRow]) -> tuple[str, ...]:
    return tuple(row.name for row in rows)


def _note_trimmed_bytes(connection: Connection, log: LogState, start: int) -> None:
    """Record for each replica the bytes that it lacks of entries before the new start."""
    r, e = schema.replicas.c, schema.entries.c
    for row in replicas(connection, log.archive):
        first = max(row.pointer, log.start)
        if first < start:
            query = sa.select(sa.func.coalesce(sa.func.sum(e.size), 0))
            gone = query.where(e.archive == log.archive, e.index >= first, e.index < start).scalar_subquery()
            connection.execute(
                schema.replicas.update()
                .where(r.archive == log.archive, r.name == row.name)
                .values(trimmed_bytes=r.trimmed_bytes + gone)
            )


def _new_start(
    log: LogState, rows: list[ReplicaRow], now: float, min_keep: int, max_keep: int
) -> tuple[int, list[ReplicaRow], list[ReplicaRow]]:
    """Return the new start of the log, the replicas lost by it, and those spared as it would win little."""
    # One that is being recovered counts by the pointer it took from its source; one whose recovery has died, for as
    # long as any other that is away: the process that goes on with it starts over.
    held_by = [row.pointer for row in rows if row.is_active(now)]
    away = [row for row in rows if not row.is_active(now)]
    start = min([log.head + 1 - min_keep, *held_by])
    for row in away:
        if row.pointer < start and log.head + 1 - row.pointer <= max_keep:
            start = row.pointer
    # A recovery reads a whole replica: a few entries of the log are not worth that.
    worth = max(1, max_keep // _WORTH)
    spared = [row for row in away if start - worth < row.pointer < start]
    start = min([start, *(row.pointer for row in spared)])
    return start, [row for row in away if row.pointer < start], spared


def oldest_entry(connection: Connection, archive: str) -> int | None:
    """Return the index of the oldest stored entry, asked once: looking for it passes all that was deleted."""
    e = schema.entries.c
    return connection.execute(sa.select(sa.func.min(e.index)).where(e.archive == archive)).scalar_one_or_none()


def delete_some(connection: Connection, archive: str, first: int, upto: int) -> None:
    """Delete entries before the log's start, from `first` to before `upto`."""
    for table in (schema.entries, schema.blocks):
        connection.execute(
            table.delete().where(table.c.archive == archive, table.c.index >= first, table.c.index < upto)
        )
