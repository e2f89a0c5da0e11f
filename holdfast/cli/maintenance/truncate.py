"""`holdfast truncate`: the removal of restore points that no rule and no hold keeps. Works with Airflow down."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive, locks
from holdfast.archive.maintenance.truncation import truncate as truncate_archive
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output, table_lines
from holdfast.cli.shared.request_options import takes
from holdfast.common.words import counted, human_size
from holdfast.operations.plans import planned_truncation, rules_of, truncated
from holdfast.operations.requests.truncation import TruncationRequest
from holdfast.replication.work.replica_maintenance import opened_for_maintenance
from locking import Owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.archive.maintenance.truncation import TruncationPlan


@takes(TruncationRequest)
def truncate(url: Url, request: TruncationRequest, wait: Wait = 0, as_json: Json = False) -> None:
    """Remove the restore points that no rule and no hold keeps; 'holdfast vacuum' deletes their files later."""
    output = Output(as_json=as_json)
    resolved = places.resolve(url)
    request = request.filled(keep=tuple(resolved.settings.keep.rules()))
    rules = rules_of(request)
    store = resolved.open()
    archive = Archive.open(store)
    if request.dry_run:
        plan = planned_truncation(archive, request, coordination=resolved.coordination)
        value = {"dry_run": True, "keep": str(rules), **plan.details()}
        output.result(value, _plan_lines(plan, str(rules)))
        return
    until = time.monotonic() + wait
    with (
        locks.acquire(store, "truncation", owner=Owner(), purpose="truncation", wait=wait) as held,
        opened_for_maintenance(
            store, check=held.check, wait=max(0.0, until - time.monotonic()), coordination=resolved.coordination
        ) as leading,
    ):
        result = truncate_archive(
            leading, rules, check=held.check, fence=held.fence, source=truncated(request), min_chains=request.min_chains
        )
    output.result({"keep": str(rules), **result}, _result_lines(result))


def _plan_lines(plan: TruncationPlan, rules: str) -> Iterator[str]:
    yield f"keep {rules}"
    for source in plan.sources:
        yield source.source
        rows = [(run["from"], run["to"], str(run["points"]), *_fate(run)) for run in source.runs()]
        yield from table_lines(("from", "to", "points", "", "why"), rows)
        yield _source_line(source.summary(), "would stay")
    yield _removed_line(plan.summary(), "would be removed") if plan.removed else "nothing to remove"


def _fate(run: dict[str, Any]) -> tuple[str, str]:
    if not run["stays"]:
        return "goes", ""
    return "stays", ", ".join(run["why"]) or "other points need its blocks"


def _result_lines(result: dict[str, Any]) -> Iterator[str]:
    yield from (_source_line(summary, "stay") for summary in result["sources"])
    if result["commit"] is None:
        yield "nothing to remove"
    else:
        yield f"commit {result['commit']}: {_removed_line(result, 'removed')}"


def _source_line(summary: dict[str, Any], verb: str) -> str:
    points = summary["points_kept"] + summary["points_removed"]
    restorable = _spans(summary["restorable_after"])
    return f"{summary['source']}: {summary['points_kept']} of {points} restore points {verb}; restorable {restorable}"


def _spans(spans: Iterable[dict[str, Any]]) -> str:
    """Return restorable intervals in words, the newest first."""
    shown = [each["from"] if each["from"] == each["to"] else f"{each['from']} to {each['to']}" for each in spans][::-1]
    rest = [f"and {counted(len(shown) - _SHOWN, 'earlier interval')}"] if len(shown) > _SHOWN else []
    return ", ".join([*shown[:_SHOWN], *rest]) or "none"


_SHOWN = 3
"""Intervals in a sentence."""


def _removed_line(summary: dict[str, Any], verb: str) -> str:
    blocks = counted(summary["blocks_removed"], "block")
    return f"{blocks} {verb}, {human_size(summary['bytes'])}: 'holdfast vacuum' deletes the files after its grace"
