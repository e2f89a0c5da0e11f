"""The archive that a job works on, its newest record there, and how its process has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.operations.outcome import JobEnd, last_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.archive.format.runs import RunRecord
    from holdfast.storage import ObjectStore
    from holdfast_airflow.jobs.prepared_job import PreparedJob

_LAST_OUTPUT = "Last output:"


def open_archive(job: PreparedJob) -> ObjectStore:
    """Return the store of an archive; nothing is written, not even a lock, where there is none."""
    from holdfast.archive import Archive
    from holdfast.storage import open_store

    return Archive.open(open_store(job.url, job.key, job.signing)).store


def read_last_record(store: ObjectStore, run: str) -> RunRecord | None:
    """Return the newest record of a run; None where there is none."""
    from holdfast.archive.format.runs import read_last

    return read_last(store, run)


def told_end(exit_code: int, last: Iterable[str]) -> str:
    """Return the error of an inline process with its last lines, as `end_of` reads it; "" where it went well."""
    words = f"The job's process ended with exit code {exit_code}. {_LAST_OUTPUT}"
    return "\n".join([words, *last]) if exit_code else ""


def end_of(problem: str, operation: str) -> JobEnd:
    """Return the end of a job's process, from its error; "" stands for none."""
    said = problem.partition("Last spark-submit output:")[2] or problem.partition(_LAST_OUTPUT)[2]
    lines = [line for line in said.splitlines() if line.strip()]
    return JobEnd(None if problem else 0, last_words(problem, operation), lines)
