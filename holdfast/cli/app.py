"""The commands, their options and their exit codes."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from typer.exceptions import TyperException

import holdfast
from holdfast.archive import Archive, points
from holdfast.archive.model import FORMAT, iso
from holdfast.cli import doctor as examination
from holdfast.cli import places
from holdfast.cli.backup import backup
from holdfast.cli.compact import compact
from holdfast.cli.copy import copy
from holdfast.cli.drill import drill
from holdfast.cli.hold import hold_app
from holdfast.cli.key import key_app
from holdfast.cli.locks import locks_app
from holdfast.cli.mark import mark
from holdfast.cli.migrate import migrate
from holdfast.cli.options import Json, Url  # noqa: TC001 - typer reads them at run time
from holdfast.cli.output import Output, human_size
from holdfast.cli.points import show_points
from holdfast.cli.probe import probe_app
from holdfast.cli.query import query
from holdfast.cli.replica import replica_app
from holdfast.cli.restore import restore
from holdfast.cli.source import source_app
from holdfast.cli.truncate import truncate
from holdfast.cli.vacuum import vacuum
from holdfast.cli.verify import verify
from holdfast.errors import exit_code_of, is_ours, sentence

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

    from rich.console import Console

    from holdfast.archive.placed import Placed

app = typer.Typer(
    name="holdfast",
    help="Back up SQL databases into shared archives and restore them. Exit codes: 0 done, 1 failed, 2 wrong usage, "
    "3 busy, 4 damaged or not equal, 5 refused (it would lose data), 6 outcome unknown.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(hold_app)
app.add_typer(key_app)
app.add_typer(locks_app)
app.add_typer(probe_app)
app.add_typer(replica_app)
app.add_typer(source_app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdfast {holdfast.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Back up SQL databases into shared archives and restore them."""


@app.command()
def init(
    url: Url,
    name: Annotated[str | None, typer.Option(help="The archive's name; default is the end of its URL.")] = None,
    number: Annotated[
        int, typer.Option("--format", help="Its format; 1 where older releases are to read it, too.")
    ] = FORMAT,
    as_json: Json = False,
) -> None:
    """Create an archive in an empty place."""
    output = Output(as_json=as_json)
    store = places.archive_store(url)
    archive = Archive.create(store, name=name or PurePosixPath(store.url.rstrip("/")).name or "archive", number=number)
    value = {
        "archive": archive.identity.id,
        "name": archive.identity.name,
        "url": store.url,
        "format": archive.identity.format,
        "encrypted": store.is_encrypted,
    }
    kind, opened = ("encrypted archive", f", opened by {store.key}") if store.is_encrypted else ("archive", "")
    output.result(
        value,
        lambda console: console.print(f"created {kind} {archive.identity.name} at {store.url}{opened}", markup=False),
    )


app.command()(backup)
app.command()(restore)
app.command()(query)
app.command(name="points")(show_points)
app.command()(mark)
app.command()(verify)
app.command()(copy)
app.command()(drill)
app.command()(compact)
app.command()(truncate)
app.command()(vacuum)
app.command()(migrate)


@app.command()
def status(url: Url, as_json: Json = False) -> None:
    """Say what an archive holds."""
    output = Output(as_json=as_json)
    archive = Archive.open(places.archive_store(url))
    value = _status(archive)
    output.result(value, lambda console: _show_status(console, value))


def _status(archive: Archive) -> dict[str, Any]:
    blocks = archive.state.blocks.values()
    return {
        "archive": archive.identity.id,
        "name": archive.identity.name,
        "url": archive.store.url,
        "format": archive.state.format,
        "commits": archive.state.sequence,
        "blocks": len(blocks),
        "bytes": sum(placed.size for placed in blocks),
        "sources": [
            {
                "source": name,
                "backups": len(_of_kind(blocks, name, "snapshot")),
                "changes": len(_of_kind(blocks, name, "changes")),
                "restorable_to": iso(points.intervals(archive.state, name)[-1].end),
                "rows": (_of_kind(blocks, name, "snapshot") or _of_kind(blocks, name, "changes"))[-1].rows,
            }
            for name in points.source_names(archive.state)
        ],
    }


def _of_kind(blocks: Iterable[Placed], source: str, kind: str) -> list[Placed]:
    """Return a source's blocks of a kind in the order of their commits; what was added for single tables is none."""
    found = [
        placed
        for placed in blocks
        if placed.source == source and placed.head.kind == kind and not placed.head.supplement
    ]
    return sorted(found, key=lambda placed: placed.number)


def _show_status(console: Console, value: dict[str, Any]) -> None:
    console.print(
        f"{value['name']} at {value['url']}: format {value['format']}, {value['commits']} commits, "
        f"{human_size(value['bytes'])} in {value['blocks']} blocks",
        markup=False,
    )
    table = Table("source", "full", "changes", "rows", "restorable to", box=None)
    for source in value["sources"]:
        full, changes = str(source["backups"]), str(source["changes"])
        table.add_row(source["source"], full, changes, f"{source['rows']:,}", source["restorable_to"])
    if value["sources"]:
        console.print(table)


@app.command()
def doctor(
    url: Annotated[str | None, typer.Argument(metavar="[URL]", help="An archive to reach, too.")] = None,
    as_json: Json = False,
) -> None:
    """Check that everything is here that backups and restores need, and say what to do."""
    output = Output(as_json=as_json)
    findings = list(examination.examine(url))
    value = {
        "ok": all(finding.ok for finding in findings),
        "findings": [{"what": each.what, "found": each.found, "remedy": each.remedy} for each in findings],
    }
    output.result(value, lambda console: _show_findings(console, findings))
    if not value["ok"]:
        raise typer.Exit(1)


def _show_findings(console: Console, findings: list[examination.Finding]) -> None:
    for finding in findings:
        console.print(f"{'ok  ' if finding.ok else 'FAIL'} {finding.what}: {finding.found}", markup=False)
        if finding.remedy:
            console.print(f"     {finding.remedy}", markup=False)


def _end_on_signal(number: int, frame: FrameType | None) -> None:
    """End once, in order: what a second signal would cut short is giving back the locks, and is soon over."""
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


_INTERRUPTED = 130
"""What typer makes of KeyboardInterrupt."""

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Run the command and exit with its code.

    Every failure is one sentence on stderr; with --json also one object on stdout.
    """
    for each in _ENDING:
        if signal.getsignal(each) is not signal.SIG_IGN:  # as nohup wants it
            signal.signal(each, _end_on_signal)
    if not os.environ.get("HOLDFAST_DEBUG"):
        logging.getLogger("locking").setLevel(logging.ERROR)  # how it tidied up after a failure hides the failure
    output = Output(as_json="--json" in sys.argv)
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except TyperException as error:
        code = output.failure(error.format_message() or "say what to do: one of the commands above", 2)
    except (typer.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    except BrokenPipeError:  # who reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as error:  # noqa: BLE001 - whatever it is, it becomes one sentence and an exit code
        code = output.failure(_explain(error), exit_code_of(error))
    if code == _INTERRUPTED:
        code = output.failure("stopped; its locks were released", 1)
    sys.exit(code or 0)


def _explain(error: Exception) -> str:
    if is_ours(error):
        return sentence(error)
    if os.environ.get("HOLDFAST_DEBUG"):
        raise error
    return f"unexpected {sentence(error)} (HOLDFAST_DEBUG=1 shows where; please report it)"
