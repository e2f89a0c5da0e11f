"""`holdfast probe`: a measurement of a store's safety for locks and commits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.common.errors import RefusedError
from holdfast.storage.probe import keep, probe

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.storage.probe import ProbeResult


def probe_store(url: Url, as_json: Json = False) -> None:
    """Measure whether a store is safe, also before there is an archive; writes and removes about 300 MB."""
    output = Output(as_json=as_json)
    store = places.archive_store(url)
    output.say(f"probing {store.url}: seconds on a near store, minutes on a far one")
    result = probe(store)
    key = keep(store, result)
    value = {**json.loads(result.to_bytes()), "reasons": result.reasons, "kept": key}
    output.result(value, lambda console: _show(console, result, key))
    if result.reasons:
        output.say(f"holdfast: {store.url} is not safe for an archive: {'; '.join(result.reasons)}")
        raise typer.Exit(RefusedError.exit_code)


def _show(console: Console, result: ProbeResult, key: str) -> None:
    for finding in result.findings:
        console.print(f"{finding.verdict:<11} {finding.what}: {finding.found}", markup=False)
    clock = result.clock
    console.print(
        f"its clock: {clock.source}, {clock.skew_s:+.1f} s from ours (give or take {clock.uncertainty_s:.1f} s)",
        markup=False,
    )
    console.print(f"a lock's check takes {result.listings_per_check} listing(s) here")
    for kind, took in result.latency.items():
        console.print(f"{kind}: {took.median_ms:.1f} ms median, {took.max_ms:.1f} ms at most, {took.requests} requests")
    console.print(f"kept as {key}", markup=False)
