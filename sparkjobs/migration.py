"""Lift an archive to a newer format. Only what commits tell is looked at, so Spark itself is not started."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive
from holdfast.archive.maintenance.migration import migrate
from sparkjobs.driver.application import Job, run_application

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(job: Job, to: int) -> dict[str, Any]:
    """Migrate, and return a summary."""
    return migrate(Archive.open(job.store), to, check=job.check, fence=job.locks.fence)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="migration.py", description="Lift an archive (started by holdfast).")
    parser.add_argument("--archive", required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--to", type=int, required=True)
    given = parser.parse_args(arguments)

    def work(job: Job) -> dict[str, Any]:
        return run(job, given.to)

    return run_application("migration", archive=given.archive, run=given.run, work=work, has_tasks=False)


if __name__ == "__main__":
    sys.exit(main())
