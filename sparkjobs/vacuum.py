"""Application that deletes the files that an archive does not need any more; the store does it, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive
from holdfast.archive.maintenance.vacuum import vacuum
from holdfast.operations.requests.vacuum import VacuumRequest
from holdfast.replication.work.replica_maintenance import vacuum_permit
from locking import Owner
from sparkjobs.driver.application import Job, end, run_request

if TYPE_CHECKING:
    from collections.abc import Sequence


def vacuum_archive(job: Job, request: VacuumRequest) -> dict[str, Any]:
    """Vacuum, or plan it in a dry run, and return a summary, with files that could not be deleted."""
    with vacuum_permit(job.store, dry_run=request.dry_run, coordination=job.coordination) as permit:
        done = vacuum(
            Archive.open(job.store),
            check=job.check,
            fence=job.locks.fence,
            grace=request.span,
            orphans=request.orphans,
            dry_run=request.dry_run,
            owner=Owner(),
            permit=permit,
        )
    job.say(*filter(None, (done.trouble, *done.busy)))
    return done.describe()


def main(arguments: Sequence[str] | None = None) -> int:
    return run_request(VacuumRequest, vacuum_archive, arguments, has_tasks=False)


if __name__ == "__main__":
    end(main())
