"""Application that brings a replica to the head of its update log.

The copies of an entry's files are spread over tasks; an entry is committed once all of its files are there. A job that
was killed has committed some; of the one it was at, the next sync fetches what is still missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.archive.files.transfer import fetch_files, replace_file, send_files
from holdfast.common.errors import DamagedError, ReportedError, exit_code_of, sentence
from holdfast.operations.requests.sync import SyncRequest
from holdfast.replication.log.errors import FilesAwayError, MissingFilesError
from holdfast.replication.log.store import opened
from holdfast.replication.work.replica import ReplicatedArchive
from locking.store import StoreError
from sparkjobs.driver.application import Job, end, run_request
from sparkjobs.tasks.packing import pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.archive.format.document import FileRecord
    from holdfast.storage import ObjectStore

TASK_BYTES = 256 << 20
"""How many bytes one task copies, unless a single file is larger: four pieces of a large table at a time."""


@dataclass(frozen=True)
class Sender:
    """Work of a task: copy files to keys that are free.

    It deletes nothing: Spark may have given a task up that still runs somewhere.
    """

    source: ObjectStore
    target: ObjectStore

    def __call__(
        self, files: Sequence[FileRecord], report: Callable[[int, int], None]
    ) -> Iterable[tuple[int, list[FileRecord]]]:
        """Yield the size of all files, and the files that have something else at their key."""
        try:
            left = send_files(self.source, self.target, files)
        except StoreError as error:  # another replica may be there, so Spark need not try this one again
            raise ReportedError(sentence(error), exit_code_of(error)) from error
        size = sum(file.size for file in files)
        report(sum(file.rows for file in files), size)
        yield size, left


class SparkFetch:
    """Fetching of files by Spark jobs, or by threads of the driver where one task would do."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._size = 0

    def __call__(self, source: ObjectStore, target: ObjectStore, files: Sequence[FileRecord]) -> tuple[int, int]:
        """Fetch files as `fetch_files` does."""
        tasks = pack(files, lambda file: file.size, room=TASK_BYTES)
        step = f"fetching files, {self._size / 1e6:,.0f} MB were fetched"
        if len(tasks) == 1:
            self._job.log.progress(step)
            fetched = fetch_files(source, target, files)
        else:
            rows = sum(file.rows for file in files)
            try:
                done = self._job.map(step, tasks, Sender(source, target), estimated_rows=rows)
            except ReportedError as error:  # of a task: what this replica cannot give, another one may have
                raise DamagedError(sentence(error)) from error
            for file in (file for _, left in done for file in left):
                replace_file(source, target, file)
            fetched = len(files), sum(size for size, _ in done)
        self._size += fetched[1]
        return fetched


def sync(job: Job) -> dict[str, Any]:
    """Execute the entries of the update log, and return a summary, with one whose files no replica has."""
    job.log.progress("executing the update log")
    with opened(job.coordination) as coordination:
        replica = ReplicatedArchive.begin(job.store, coordination)
        replica.fetch = SparkFetch(job)
        try:
            return replica.sync(check=job.check, fence=job.locks.fence).describe()
        except MissingFilesError as error:
            away = isinstance(error, FilesAwayError)
            return {"missing": {"entry": error.index, "why": sentence(error), "away": away}}


def main(arguments: Sequence[str] | None = None) -> int:
    return run_request(SyncRequest, lambda job, request: sync(job), arguments)


if __name__ == "__main__":
    end(main())
