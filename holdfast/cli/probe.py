"""`holdfast probe`: a measurement of a store's safety for locks and commits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.common.errors import RefusedError
from holdfast.common.words import counted
from holdfast.storage import probe as store_probe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.storage.probe import ProbeResult


def probe(url: Url, as_json: Json = False) -> None:
    """Measure whether a store is safe, also before there is an archive; writes and removes about 300 MB."""
    output = Output(as_json=as_json)
    store = places.archive_store(url)
    output.say(f"probing {store.url}: seconds on a near store, minutes on a far one")
    result = store_probe.probe(store)
    key = store_probe.keep(store, result)
    value = {**json.loads(result.to_bytes()), "reasons": result.reasons, "kept": key}
    output.result(value, _lines(result, key))
    if result.reasons:
        output.say(f"holdfast: {store.url} is not safe for an archive: {'; '.join(result.reasons)}")
        raise typer.Exit(RefusedError.exit_code)


def _lines(result: ProbeResult, key: str) -> Iterator[str]:
    for finding in result.findings:
        yield f"{finding.verdict:<11} {finding.what}: {finding.found}"
    clock = result.clock
    yield f"its clock: {clock.source}, {clock.skew_s:+.1f} s from ours (± {clock.uncertainty_s:.1f} s)"
    yield f"a lock's check takes {counted(result.listings_per_check, 'listing')} here"
    for kind, took in result.latency.items():
        yield f"{kind}: {took.median_ms:.1f} ms median, {took.max_ms:.1f} ms maximum, {took.requests} requests"
    yield f"kept as {key}"
