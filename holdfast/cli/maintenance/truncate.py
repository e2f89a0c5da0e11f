"""`holdfast truncate`: the removal of restore points that no rule and no hold keeps. Works with Airflow down."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive, locks
from holdfast.archive.maintenance.truncation import truncate as truncate_archive
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output, show_rows
from holdfast.cli.shared.request_options import takes
from holdfast.common.words import human_size
from holdfast.operations.plans import planned_truncation, rules_of, truncated
from holdfast.operations.requests.truncation import TruncationRequest
from holdfast.replication.work.replica_maintenance import opened_for_maintenance
from locking import Owner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

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
        output.result(value, lambda console: _show_plan(console, plan, str(rules)))
        return
    until = time.monotonic() + wait
    with (
        locks.acquire(store, "truncation", owner=Owner(), purpose="truncation", wait=wait) as held,
        opened_for_maintenance(
            store,
            check=held.check,
            wait=max(0.0, until - time.monotonic()),
            coordination=resolved.coordination,
        ) as leading,
    ):
        done = truncate_archive(
            leading,
            rules,
            check=held.check,
            fence=held.fence,
            source=truncated(request),
            min_chains=request.min_chains,
        )
    output.result({"keep": str(rules), **done}, lambda console: _show_done(console, done))


def _show_plan(console: Console, plan: TruncationPlan, rules: str) -> None:
    console.print(f"keep {rules}", markup=False)
    for source in plan.sources:
        summary = source.summary()
        rows = [(run["from"], run["to"], str(run["points"]), *_fate(run)) for run in source.runs()]
        console.print(source.source, markup=False)
        show_rows(console, ("from", "to", "points", "", "why"), rows)
        _show_source(console, summary, "would stay")
    console.print(_going(plan.summary(), "would go") if plan.removed else "nothing to remove", markup=False)


def _fate(run: dict[str, Any]) -> tuple[str, str]:
    if not run["stays"]:
        return "goes", ""
    return "stays", ", ".join(run["why"]) or "its blocks are needed by others"


def _show_done(console: Console, done: dict[str, Any]) -> None:
    for summary in done["sources"]:
        _show_source(console, summary, "stay")
    if done["commit"] is None:
        console.print("nothing to remove")
    else:
        console.print(f"commit {done['commit']}: {_going(done, 'removed')}", markup=False)


def _show_source(console: Console, summary: dict[str, Any], verb: str) -> None:
    every = summary["points_kept"] + summary["points_removed"]
    console.print(
        f"{summary['source']}: {summary['points_kept']} of {every} restore points {verb}; "
        f"restorable {_spans(summary['restorable_after'])}",
        markup=False,
    )


def _spans(spans: Iterable[dict[str, Any]]) -> str:
    """Return restorable intervals in words, the newest first, as many as fit into a sentence."""
    shown = [each["from"] if each["from"] == each["to"] else f"{each['from']} to {each['to']}" for each in spans][::-1]
    rest = [f"and {len(shown) - _SHOWN} intervals before"] if len(shown) > _SHOWN else []
    return ", ".join([*shown[:_SHOWN], *rest]) or "none"


_SHOWN = 3
"""Intervals in a sentence."""


def _going(summary: dict[str, Any], verb: str) -> str:
    return (
        f"{summary['blocks_removed']} blocks {verb}, {human_size(summary['bytes'])}: "
        "the files are deleted by 'holdfast vacuum' after its grace"
    )
