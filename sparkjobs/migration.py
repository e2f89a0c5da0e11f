"""Application that lifts an archive to a newer format; it reads commits only, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive
from holdfast.archive.maintenance.migration import migrate
from holdfast.operations.requests.migration import MigrationRequest
from sparkjobs.driver.application import Job, end, run_request

if TYPE_CHECKING:
    from collections.abc import Sequence


def migrate_archive(job: Job, request: MigrationRequest) -> dict[str, Any]:
    return migrate(Archive.open(job.store), request.to, check=job.check, fence=job.locks.fence)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_request(MigrationRequest, migrate_archive, arguments, has_tasks=False)


if __name__ == "__main__":
    end(main())
