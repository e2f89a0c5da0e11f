"""`holdfast backup`: a source into an archive, in one snapshot or by what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdfast.cli.shared import places
from holdfast.cli.shared.jobs import run_job
from holdfast.cli.shared.options import Json, Url, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output, human_size
from holdfast.config.archives_model import parse_bandwidth, parse_size, parse_span
from holdfast.operations.backup_run import confirm
from holdfast.sources.postgresql.snapshot.preconditions import named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.config.archives_model import Restart, SourceConfig


def backup(
    url: Url,
    source: Annotated[str, typer.Option(help="A name in archives.yaml, or postgresql://user@host:port/database.")],
    kind: Annotated[
        Literal["auto", "full", "changes"],
        typer.Option(
            help="'changes': what has changed since the last backup; where the source is not followed yet, or changes "
            "were lost, a full backup that begins to follow it. 'auto': that where it is followed, else a full one."
        ),
    ] = "auto",
    tables: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Only rows of these tables (schema.table).")
    ] = None,
    connections: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Sessions that read the source at a time, at most.")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(metavar="RATE", help="What is read in a second, at most, such as '50 MB'.")
    ] = None,
    quorum: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="It counts once so many replicas have it; else it is taken back."),
    ] = None,
    quorum_timeout: Annotated[
        str | None, typer.Option(metavar="SPAN", help="They have so long for it once it is written, such as '1h'.")
    ] = None,
    moved: Annotated[
        bool, typer.Option("--moved", help="SOURCE is the same database at another place than at the last backup.")
    ] = False,
    restart_stream: Annotated[
        bool,
        typer.Option(
            "--restart-stream",
            help="Begin a new stream of changes by a full backup, where no backup of changes can get on. No moment "
            "between the last backup and this one can be restored.",
        ),
    ] = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Back up a database: all of it in one snapshot, or what has changed since the last backup."""
    output = Output(as_json=as_json)
    _, configured, _ = places.source(url, source)
    restart: Restart = "now" if restart_stream else configured.restart_stream
    more = [*_tables(configured, tables or ()), *_limits(configured, connections, bandwidth, restart)]
    more += ["--moved"] if moved else []
    value = _run(url, source, kind, more, quorum, quorum_timeout, wait, output)
    output.result(value, lambda console: console.print(_said(value), markup=False))


def back_up_changes(url: str, source: str, *, wait: float, output: Output) -> dict[str, Any]:
    """Back up what has changed, as the command does by itself, tell of it, and return its summary.

    :raises ReportedError: it failed, or tables wait.
    """
    _, configured, _ = places.source(url, source)
    more = [*_tables(configured, ()), *_limits(configured, None, None, configured.restart_stream)]
    value = _run(url, source, "changes", more, None, None, wait, output)
    output.say(_said(value))
    return value


def _run(
    url: str,
    source: str,
    kind: str,
    more: Sequence[str],
    quorum: int | None,
    quorum_timeout: str | None,
    wait: float,
    output: Output,
) -> dict[str, Any]:
    """Run a backup, wait until it counts, and return its summary.

    :param more: arguments of its job, beside the source and the kind.
    """
    name, _, address = places.source(url, source)
    arguments = ["--source", name, "--kind", kind, *more]
    store = places.archive_store(url)
    size, timeout = places.quorum(url)
    if needs_quorum := (quorum or size) > 1:
        span = parse_span(quorum_timeout or timeout)
        arguments += ["--quorum", str(quorum or size), "--quorum-timeout", str(span.total_seconds())]
    value = run_job(
        "backup",
        store,
        arguments,
        address=address,
        role="source",
        sources=[name],
        wait=wait,
        output=output,
    )
    if needs_quorum:
        value = confirm(store, address, value, say=output.say)
    for left_out in value.get("not_included", []):
        output.say(f"not included: {left_out}")
    if value.get("snapshot_note"):
        output.say(f"the log position is approximate: {value['snapshot_note']}")
    return value


def _tables(configured: SourceConfig, chosen: Sequence[str]) -> Iterator[str]:
    """Yield the arguments that say what to back up, and what of the log may be kept for it."""
    for glob in chosen or configured.tables:
        yield from ("--tables", glob)
    if chosen:
        yield "--chosen"
    for glob in configured.exclude:
        yield from ("--exclude", glob)
    if configured.max_retained_wal:
        yield from ("--max-retained", str(parse_size(configured.max_retained_wal)))


def _limits(
    configured: SourceConfig, connections: int | None, bandwidth: str | None, restart: Restart
) -> Iterator[str]:
    """Yield the arguments that say how the source is read, and whether a new stream may be begun."""
    if restart != "no":
        yield from ("--restart-stream", restart)
    if sessions := connections or configured.connections:
        yield from ("--connections", str(sessions))
    if rate := bandwidth or configured.bandwidth:
        yield from ("--bandwidth", str(parse_bandwidth(rate)))


def _said(value: dict[str, Any]) -> str:
    seconds = value.get("seconds")
    speed = f", {seconds:.1f} s ({value['rows'] / seconds:,.0f} rows/s)" if seconds else ""
    what = f"rows of {value['tables']} tables"
    if value["kind"] == "changes":
        what = f"changes of {value['transactions']:,} transactions" if "transactions" in value else "changes"
        if value.get("begun"):
            what = f"rows ({what}, and tables begun anew: {named(value['begun'])})"
    told = (
        f"commit {value['commit']}: {value['rows']:,} {what} in {human_size(value['bytes'])}{speed}; "
        f"restorable to {value['restorable_to']}"
    )
    reached = value.get("quorum")
    return f"{told}\n{', '.join(reached['replicas'])} have it" if reached else told
