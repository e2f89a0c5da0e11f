"""Application that verifies an archive: its commits, the sizes of new files, and the bytes of files.

Which files are read, and how far that has come, is kept in the archive: the next job goes on with it.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive
from holdfast.archive.files.file_index import content_problem
from holdfast.archive.locks import HistoryReader
from holdfast.archive.maintenance.verify import Scope, verify_and_remember
from holdfast.operations.requests.verification import VerificationRequest
from locking import Owner
from sparkjobs.driver.application import Job, end, run_request
from sparkjobs.tasks.packing import pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from holdfast.archive.files.file_index import NamedFile, Problem
    from holdfast.storage import ObjectStore

_TASK_BYTES = 64 << 20
"""How many stored bytes one task reads, unless a single file is larger."""

WAIT_S = 300.0
"""A vacuum that deletes a batch is waited for, at most so long."""


@dataclass(frozen=True)
class FileReader:
    """Work of a task: read files, one in memory at a time."""

    store: ObjectStore

    def __call__(
        self, files: Sequence[NamedFile], report: Callable[[int, int], None]
    ) -> Iterable[tuple[str, Problem | None]]:
        """Yield the path of each file with its problem, or None."""
        for file in files:
            yield file.path, content_problem(self.store, file)
            report(file.record.rows, 0)


class _SparkReading:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._size = 0

    def __call__(self, files: Sequence[NamedFile]) -> Iterator[Problem | None]:
        tasks = pack(files, lambda file: file.record.size, room=_TASK_BYTES)
        rows = sum(file.record.rows for file in files)
        step = f"reading files, {self._size / 1e6:,.0f} MB were read"
        found = dict(self._job.map(step, tasks, FileReader(self._job.store), estimated_rows=rows))
        self._size += sum(file.record.size for file in files)
        return (found[file.path] for file in files)


def verify(job: Job, scope: Scope, *, unlocked: bool = False) -> dict[str, Any]:
    """Verify an archive, and return a summary, of which damage is a part.

    :param unlocked: write nothing to the archive, neither locks nor how far it has come.
    """
    archive = Archive.open(job.store, before_damage=True)
    job.log.progress("looking at commits and sizes")
    history = HistoryReader(job.store, owner=Owner(), purpose=f"verification {job.run}", wait=WAIT_S)
    found = verify_and_remember(
        archive,
        scope,
        reading=nullcontext if unlocked else history,
        read_all=_SparkReading(job),
        check=job.check,
        remember=not unlocked,
    )
    job.say(*(f"damaged: {each}" for each in found.damage))
    return found.describe()


def _verify(job: Job, request: VerificationRequest) -> dict[str, Any]:
    scope = Scope(deep=request.deep, new=request.new, **request.bounds)
    return verify(job, scope, unlocked=request.no_lock)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_request(VerificationRequest, _verify, arguments)


if __name__ == "__main__":
    end(main())
