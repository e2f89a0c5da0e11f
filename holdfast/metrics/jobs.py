"""Samples of the last job of each operation and source, from its records under `runs/`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from holdfast.archive.format.runs import listed_runs, newest_records
from holdfast.archive.locks.lock_table import AVAILABLE
from holdfast.archive.maintenance.scrub_schedule import RUN
from holdfast.metrics.catalogue import sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from holdfast.archive import Archive
    from holdfast.archive.format.runs import ListedRun, RunRecord
    from holdfast.metrics.catalogue import Sample
    from holdfast.storage import ObjectStore

NEWEST: Final = 8
"""Runs read of each beginning of their names: those of one operation, and mostly of one source."""


@dataclass(frozen=True)
class EndedJob:
    """A job that has ended: its last record, and the time of that by the store's clock."""

    record: RunRecord
    ended: datetime

    @property
    def source(self) -> str:
        """Return the source, if known; the run's name has it for Airflow's tasks and drills that failed early."""
        if source := (self.record.result or {}).get("source"):
            return str(source)
        operation, _, named = _begins(self.record.run).partition("-")
        return named if operation == self.record.operation and named != "all" else ""


def last_jobs(archive: Archive, label: str) -> Iterator[Sample]:
    """Yield the samples of the last ended job of each operation and source.

    Requests: one listing, and one for each of the newest runs.
    """
    last: dict[tuple[str, str], EndedJob] = {}
    for each in sorted(_ended(archive.store), key=lambda job: job.ended):
        last[each.record.operation, each.source] = each
    for (operation, source), job in sorted(last.items()):
        record, labels = job.record, (label, operation, source)
        yield sample("holdfast_job_last_ended_timestamp_seconds", job.ended, *labels)
        yield sample("holdfast_job_last_duration_seconds", record.elapsed_s, *labels)
        yield sample("holdfast_job_last_rows", record.rows, *labels)
        yield sample("holdfast_job_last_bytes", record.size, *labels)
        yield sample("holdfast_job_last_exit_code", record.error.exit_code if record.error else 0, *labels)


def _ended(store: ObjectStore) -> Iterator[EndedJob]:
    for record, at in newest_records(list(_newest(listed_runs(store)))):
        if record.state != "running" and record.operation in AVAILABLE:
            yield EndedJob(record, at)


def _newest(runs: Iterable[ListedRun]) -> Iterator[ListedRun]:
    """Yield the newest runs of each beginning of a name, of runs with the newest last."""
    jobs = (run for run in runs if run.name != RUN)  # the account of verification is no job
    for _, group in groupby(sorted(jobs, key=_run_begins), key=_run_begins):
        yield from list(group)[-NEWEST:]


def _run_begins(run: ListedRun) -> str:
    return _begins(run.name)


def _begins(run: str) -> str:
    """Return a run's name without its time and random end, as `new_run_id` was given it."""
    return run.rsplit(".", 2)[0]
