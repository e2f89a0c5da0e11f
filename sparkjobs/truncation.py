"""Application that truncates an archive by rules, in one commit; it reads commits only, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive
from holdfast.archive.maintenance.truncation import truncate
from holdfast.operations.plans import planned_truncation, rules_of, truncated
from holdfast.operations.requests.truncation import TruncationRequest
from sparkjobs.driver.application import Job, end, run_request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.archive.maintenance.truncation import TruncationPlan

_SHOWN = 100
"""Lines of a plan, at most."""


def truncate_archive(job: Job, request: TruncationRequest) -> dict[str, Any]:
    rules = rules_of(request)
    if request.dry_run:
        plan = planned_truncation(Archive.open(job.store), request)
        lines = list(_lines(plan))
        left_out = (
            [f"{len(lines) - _SHOWN} lines more: 'holdfast truncate --dry-run' prints all"] if lines[_SHOWN:] else []
        )
        job.say(*lines[:_SHOWN], *left_out)
        return {"keep": str(rules), "dry_run": True, "commit": None, **plan.summary()}
    with job.lead_archive() as archive, job.last_step():
        done = truncate(
            archive,
            rules,
            check=job.check,
            fence=job.locks.fence,
            source=truncated(request),
            min_chains=request.min_chains,
        )
    return {"keep": str(rules), "dry_run": False, **done}


def _lines(plan: TruncationPlan) -> Iterator[str]:
    for source in plan.sources:
        for each in source.runs():
            span = f"{each['from']} to {each['to']}" if each["points"] > 1 else each["from"]
            fate = f"stays: {', '.join(each['why']) or 'needed by others'}" if each["stays"] else "goes"
            yield f"{source.source}, {span}: {each['points']} restore points, {fate}"


def main(arguments: Sequence[str] | None = None) -> int:
    return run_request(TruncationRequest, truncate_archive, arguments, has_tasks=False)


if __name__ == "__main__":
    end(main())
