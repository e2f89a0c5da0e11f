"""Delete the files that an archive does not need any more. The store does the work, so Spark is not started."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive
from holdfast.archive.maintenance.vacuum import vacuum
from holdfast.config.archives_model import parse_span
from holdfast.replication.work.replica_maintenance import vacuum_permit
from locking import Owner
from sparkjobs.driver.application import Job, run_application

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta


def run(job: Job, grace: timedelta, *, orphans: bool, dry_run: bool) -> dict[str, Any]:
    """Vacuum, or say what would go, and return a summary; what could not be deleted is part of it."""
    with vacuum_permit(job.store, dry_run=dry_run) as permit:
        done = vacuum(
            Archive.open(job.store),
            check=job.check,
            fence=job.locks.fence,
            grace=grace,
            orphans=orphans,
            dry_run=dry_run,
            owner=Owner(),
            permit=permit,
        )
    job.say(*filter(None, (done.trouble, *done.busy)))
    return done.describe()


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="vacuum.py", description="Delete files nobody needs (started by holdfast).")
    parser.add_argument("--archive", required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--grace", type=parse_span, default=parse_span("24h"))
    parser.add_argument("--no-orphans", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args(arguments)

    def work(job: Job) -> dict[str, Any]:
        return run(job, given.grace, orphans=not given.no_orphans, dry_run=given.dry_run)

    return run_application("vacuum", archive=given.archive, run=given.run, work=work, has_tasks=False)


if __name__ == "__main__":
    sys.exit(main())
