"""Compactions in this process and without Spark, and what must be the same before and after them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from holdfast.archive import Archive, locks
from holdfast.archive.history.coverage import blocks_of
from holdfast.archive.history.restore_points import describe, source_names
from holdfast.archive.history.target_resolution import resolve
from holdfast.archive.maintenance.compaction import CompactionPolicy
from holdfast.common.errors import RefusedError
from holdfast.operations.requests.compaction import CompactionRequest
from holdfast.storage import ObjectStore
from locking import Owner
from sparkjobs import compaction
from sparkjobs.driver.application import Job
from tests.support.following.followed_shop import rows_in
from tests.support.jobs.inline_jobs import SteadyExecutor

_numbers = itertools.count(1)

EVERYTHING = CompactionPolicy(min_blocks=2, min_age=timedelta(0))
"""Joins whatever can be joined."""

NOTHING = CompactionPolicy(min_blocks=1000)
"""Joins nothing."""


@contextmanager
def compaction_job(store: ObjectStore, *, bounded: bool = False) -> Iterator[Job]:
    """Open a job under the locks of a compaction.

    :param bounded: it may do small work only.
    """
    with locks.acquire(store, "compaction", owner=Owner(), purpose="test", wait=0) as held:
        attached, executor = locks.attach(store, held.handles()), SteadyExecutor(bounded=bounded)
        job = Job(store, f"compaction-{next(_numbers)}", "compaction", attached, executor)
        with job.log:
            yield job


def request_of(policy: CompactionPolicy, **more: Any) -> CompactionRequest:
    """Return the request for a compaction by a policy."""
    return CompactionRequest(
        min_blocks=policy.min_blocks,
        small=f"{policy.small_bytes}B",
        target=f"{policy.target_bytes}B",
        min_age=f"{policy.min_age.total_seconds()}s",
        **more,
    )


def compact(store: ObjectStore, policy: CompactionPolicy = EVERYTHING, **more: Any) -> dict[str, Any]:
    """Compact an archive, and return what the run says."""
    with compaction_job(store) as job:
        return compaction.compact(job, request_of(policy, **more))


def everything_told(store: ObjectStore) -> dict[str, Any]:
    """Return all that an archive says of its restore points: intervals, and what each commit, mark and time means."""
    state = Archive.open(store).state
    found: dict[str, Any] = {"points": describe(state)}
    for source in source_names(state):
        for placed in blocks_of(state, source):
            head = placed.head
            names = [f"commit:{placed.commit}", head.covers.to_time.isoformat(), head.covers.from_time.isoformat()]
            names += [f"mark:{mark.name}" for mark in head.marks]
            for at in names:
                found[f"{source} {at}"] = _meaning(store, state, source, at)
    return found


def _meaning(store: ObjectStore, state: Any, source: str, at: str) -> Any:
    try:
        moment = resolve(state, store, source, at)
    except Exception as error:  # noqa: BLE001 - the same one is expected each time
        return str(error)
    tables = {
        table: (parts.base.digest, parts.since, parts.as_of, parts.stale) for table, parts in moment.tables().items()
    }
    return moment.position, moment.at, moment.commit, moment.approximate, moment.full.id, tables


def outcomes(store: ObjectStore) -> dict[str, Any]:
    """Return all rows of all tables as of the end of every third block, by the commit that added it."""
    archive = Archive.open(store)
    commits = {placed.commit for source in source_names(archive.state) for placed in blocks_of(archive.state, source)}
    found = {}
    for commit in sorted(commit for commit in commits if commit % 3 == 0):
        with suppress(RefusedError):  # it is no restore point
            found[f"rows at {commit}"] = {
                label: Counter(rows) for label, rows in rows_in(archive, f"commit:{commit}").items()
            }
    return found
