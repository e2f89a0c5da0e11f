"""An archive as it is now, read from its store."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from holdfast.archive import Archive, locks
from holdfast.archive.format.document import iso
from holdfast.archive.format.runs import read_last
from holdfast.archive.history.holds import describe_hold
from holdfast.archive.history.restorable_line import RestorableLine
from holdfast.archive.history.restore_points import only_source
from holdfast.archive.history.target_resolution import resolve
from holdfast.archive.locks.break_lock import break_lock, read_breaks
from holdfast.archive.locks.lock_report import explain
from holdfast.archive.locks.owner_status import nobodys_state
from holdfast.archive.maintenance.compaction import check_format
from holdfast.archive.maintenance.hold_requests import add_hold, remove_hold
from holdfast.archive.maintenance.retention import parse_rules
from holdfast.common.lsn import show_position
from holdfast.drill.history import drills_of
from holdfast.operations.archive_context import ArchiveContext
from holdfast.operations.plans import planned_compaction, planned_truncation
from holdfast.operations.requests.compaction import CompactionRequest
from holdfast.operations.requests.truncation import TruncationRequest
from holdfast.replication.work.replica_backup import opened_for_backup
from holdfast.status import record_of
from holdfast.storage.url import open_url
from holdfast_airflow.page.recent_runs import with_blocks
from holdfast_airflow.page.remembered_store import RememberedStore
from locking import Owner, inspect

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from holdfast.archive.format.runs import RunRecord
    from holdfast.archive.format.state import State
    from holdfast.archive.locks.owner_status import OwnerState
    from holdfast.config.archives_model import ArchiveConfig

_GROWTH = 60
"""Days, or equal spans of a longer time, that growth is given for."""


class OpenedArchive:
    """An archive, opened once and kept up to date.

    Its methods talk to the store, so each belongs into a thread with a time limit.
    """

    def __init__(self, config: ArchiveConfig) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._archive: Archive | None = None
        self._lines: dict[str, RestorableLine] = {}

    def refreshed(self) -> Archive:
        """Return the archive with all its commits; requests: a few where it was opened before."""
        with self._lock:
            if self._archive is None:
                self._archive = Archive.open(self._store)
                self._lines = {}
                return self._archive
            before = self._archive.state.sequence
            self._archive.refresh()
            if self._archive.state.sequence != before:
                self._lines = {}
            return self._archive

    @cached_property
    def _context(self) -> ArchiveContext:
        return ArchiveContext.resolve(self.config)

    @cached_property
    def _store(self) -> RememberedStore:
        return RememberedStore(open_url(self._context.url), *self._context.keys)

    def now(self, state_of: Callable[[Owner], OwnerState] = nobodys_state) -> dict[str, Any]:
        """Return the record as of now, locks, breaks, holds, drills (the newest first) and growth.

        Requests, where the archive was opened before: four listings at most, and one for each object that is new. What
        drills, breaks and verifications have recorded meanwhile is there two looks later at the latest.
        """
        self._store.begin_look()
        archive = self.refreshed()
        holds = sorted(archive.state.holds.values(), key=lambda hold: hold.at)
        return {
            "record": record_of(archive, self.config.sources),
            "locks": [lock.describe() for lock in explain(inspect(archive.store), state_of=state_of)],
            "breaks": [{**(broken.result or {}), "state": broken.state} for broken in read_breaks(archive.store)[-10:]],
            "holds": [describe_hold(archive.state, hold) for hold in holds],
            "drills": drills_of(archive.store)[::-1],
            "growth": growth(archive.state),
        }

    def backups(self, backups: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
        """Add to the backups of Airflow's tasks, by source, those of others; no request."""
        return with_blocks(backups, (self._archive or self.refreshed()).state)

    def progress(self, runs: Collection[str]) -> dict[str, dict[str, Any] | None]:
        """Return the newest record of each run; two requests each."""
        store = self._store.behind(self._store.bare)  # a job that is at work writes on: nothing is remembered
        return {run: _progress(read_last(store, run)) for run in runs}

    def line(
        self, source: str, start: datetime | None, end: datetime | None, parts: int, commits: int | None = None
    ) -> dict[str, Any]:
        """Return a source's restorable-time line between two times, with the present time as `now`.

        :param commits: as many are enough; an archive that was read up to there is not asked for more.
        """
        archive = self._archive
        if archive is None or commits is None or archive.state.sequence < commits:
            archive = self.refreshed()
        name = only_source(archive.state, source)
        line = self._lines.setdefault(name, RestorableLine(archive.state, name))
        return {**line.view(start, end, parts=parts), "now": iso(datetime.now(UTC))}

    def moment(self, source: str, at: str) -> dict[str, Any]:
        """Return the recovery target of an expression, as for `--at`."""
        archive = self.refreshed()
        point = resolve(archive.state, archive.store, only_source(archive.state, source, at), at)
        return {
            "at": iso(point.at),
            "position": show_position(point.position),
            "commit": point.commit,
            "schema": point.approximate,
        }

    def plan(self, operation: PlannedOperation) -> dict[str, Any]:
        """Return what an operation would do now, by the settings of archives.yaml."""
        return plan(operation, self.refreshed(), self._context)

    def break_lock(self, txn: str, *, reason: str, user: str) -> dict[str, Any]:
        """Break one lock. The record in the archive names the user."""
        store = self._context.open()
        _, record = break_lock(store, txn, reason=reason, user=user)
        self._store.forget()
        return dict(record.result or {})

    def hold(self, source: str, at: str, *, reason: str, user: str) -> dict[str, Any]:
        """Hold a restore point. The hold names the user as its owner."""
        store = self._context.open()
        with locks.acquire(store, "hold", owner=Owner(user=user), purpose="hold add", wait=0) as held:
            archive = opened_for_backup(store, check=held.check)
            made, _ = add_hold(archive, source, at, reason=reason, owner=user, check=held.check)
            return describe_hold(archive.state, made)

    def release(self, hold: str, *, reason: str, user: str) -> dict[str, Any]:
        """Take a hold back; the commit's reason names the user."""
        store = self._context.open()
        with locks.acquire(store, "hold", owner=Owner(user=user), purpose="hold remove", wait=0) as held:
            archive = opened_for_backup(store, check=held.check)
            taken, _ = remove_hold(archive, hold, reason=f"{reason} ({user})", check=held.check)
            return {"hold": taken.id}


def growth(state: State) -> list[dict[str, Any]]:
    """Return the size of what is there now, by when it was added: `at` and `bytes` in all up to then."""
    blocks = sorted(state.blocks.values(), key=lambda placed: placed.head.covers.to_time)
    if not blocks:
        return []
    first, last = blocks[0].head.covers.to_time, blocks[-1].head.covers.to_time
    span = (last - first) / _GROWTH
    sizes, total = [], 0
    for _, group in groupby(blocks, key=lambda placed: int((placed.head.covers.to_time - first) / span) if span else 0):
        members = list(group)
        total += sum(placed.size for placed in members)
        sizes.append({"at": iso(members[-1].head.covers.to_time), "bytes": total})
    return sizes


def _progress(record: RunRecord | None) -> dict[str, Any] | None:
    if record is None:
        return None
    rate = record.size / record.elapsed_s if record.elapsed_s else 0.0
    return {
        "run": record.run,
        "state": record.state,
        "step": record.step,
        "rows": record.rows,
        "estimated_rows": record.estimated_rows,
        "bytes": record.size,
        "bytes_per_s": round(rate),
        "left_s": record.left_s,
        "elapsed_s": record.elapsed_s,
        "words": record.describe(),
        "result": record.result,
        "error": record.error.message if record.error else "",
    }


PlannedOperation = Literal["compaction", "truncation"]

MOST = 200
"""Entries of a list that are sent; of a longer one the newest, and how many more there are."""


def plan(operation: PlannedOperation, archive: Archive, context: ArchiveContext) -> dict[str, Any]:
    """Return an operation's plan, as `--dry-run --json` has it; of restore points, only the runs.

    Requests: one, and a few of the coordination store where the archive has replicas.
    """
    return _compaction(archive, context) if operation == "compaction" else _truncation(archive, context)


def _compaction(archive: Archive, context: ArchiveContext) -> dict[str, Any]:
    check_format(archive)
    request = CompactionRequest().configured(context.settings.compaction)
    planned = planned_compaction(archive, request, coordination=context.coordination)
    groups = planned["joined"]
    return {
        **planned,
        **_newest("joined", sorted(groups, key=lambda group: str(group["to"]))),
        "blocks": sum(group["blocks"] for group in groups),
        "bytes_before": sum(group["bytes_before"] for group in groups),
    }


def _truncation(archive: Archive, context: ArchiveContext) -> dict[str, Any]:
    request = TruncationRequest(keep=tuple(context.settings.keep.rules()), dry_run=True)
    planned = planned_truncation(archive, request, coordination=context.coordination)
    lists = ("restorable_before", "restorable_after")
    sources = []
    for source in planned.sources:
        summary = {**source.summary(), **_newest("runs", source.runs())}
        for name in lists:
            summary |= _newest(name, summary[name])
        sources.append(summary)
    return {"dry_run": True, "keep": str(parse_rules(request.keep)), **planned.summary(), "sources": sources}


def _newest(name: str, entries: Sequence[Any]) -> dict[str, Any]:
    return {name: list(entries[-MOST:]), f"{name}_left_out": max(0, len(entries) - MOST)}
