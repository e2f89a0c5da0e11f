"""Truncate an archive by rules, in one commit. Only what commits tell is looked at, so Spark itself is not started."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive
from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.format.model import iso
from holdfast.archive.maintenance.retention import Rules, parse_rules
from holdfast.archive.maintenance.truncation import plan_truncation, runs_of, truncate
from holdfast.replication.work.replica_maintenance import opened_to_lead, state_to_plan
from sparkjobs.driver.application import Job, run_application

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.archive.maintenance.truncation import TruncationPlan

_TOLD = 100
"""Lines of a plan, at most."""


@dataclass(frozen=True)
class TruncationRequest:
    """What is to stay.

    :param source: only this one's restore points; None: those of all.
    :param min_chains: so many of the newest full backups always stay.
    :param dry_run: only plan.
    """

    rules: Rules
    source: str | None = None
    min_chains: int = 1
    dry_run: bool = False


def run(job: Job, wish: TruncationRequest) -> dict[str, Any]:
    """Truncate, or say what would go, and return a summary."""
    more: dict[str, Any] = {"source": wish.source, "min_chains": wish.min_chains}
    if wish.dry_run:
        state = state_to_plan(Archive.open(job.store))
        plan = plan_truncation(state, wish.rules, job.store.list(IDENTITY_KEY).now, **more)
        lines = list(_told(plan))
        left_out = (
            [f"{len(lines) - _TOLD} lines more: 'holdfast truncate --dry-run' prints all"] if lines[_TOLD:] else []
        )
        job.say(*lines[:_TOLD], *left_out)
        return {"keep": str(wish.rules), "dry_run": True, "commit": None, **plan.summary()}
    with opened_to_lead(job.store, check=job.check) as archive, job.last_step():
        done = truncate(archive, wish.rules, check=job.check, fence=job.locks.fence, **more)
    return {"keep": str(wish.rules), "dry_run": False, **done}


def _told(plan: TruncationPlan) -> Iterator[str]:
    """Yield which restore points would stay and which would go, those together that do so for the same reasons."""
    for source in plan.sources:
        for some in runs_of(source.points):
            span = f"{iso(some[0].point.at)} to {iso(some[-1].point.at)}" if some[1:] else iso(some[0].point.at)
            fate = f"stays: {', '.join(some[0].why) or 'needed by others'}" if some[0].stays else "goes"
            yield f"{source.source}, {span}: {len(some)} restore points, {fate}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="truncation.py", description="Truncate an archive (started by holdfast).")
    parser.add_argument("--archive", required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--source")
    parser.add_argument("--keep", action="append", default=[])
    parser.add_argument("--min-chains", type=int, default=1)
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args(arguments)

    def work(job: Job) -> dict[str, Any]:
        return run(job, TruncationRequest(parse_rules(given.keep), given.source, given.min_chains, given.dry_run))

    return run_application("truncation", archive=given.archive, run=given.run, work=work, has_tasks=False)


if __name__ == "__main__":
    sys.exit(main())
