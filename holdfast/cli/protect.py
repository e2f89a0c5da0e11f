"""`holdfast protect`: a command that changes a source, between two marks that can both be restored exactly."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.backup import back_up_changes
from holdfast.cli.mark import mark_now, mark_sentence, only_source
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.common.errors import HoldfastError, UsageError, exit_code_of, sentence
from holdfast.operations.marks import check_name
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

_NOT_FOUND = 127
"""The exit code of shells for a command that is not there."""


def protect(
    url: Url,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help="What changes the source.")],
    source: Annotated[
        str | None, typer.Option(help="A name in archives.yaml, or an address; default is the archive's only source.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="What the marks are called: 'before NAME' and 'after NAME'; default is the command's name."),
    ] = None,
    wait: Annotated[float, typer.Option(help="Seconds to wait for locks that others hold.", min=0)] = 600,
    as_json: Json = False,
) -> None:
    """Run a command that changes a source, such as a migration, so that both its sides can be restored exactly.

    An incremental backup and the mark 'before NAME' come first; if they fail, COMMAND is not run. After it, even if it
    fails, come a backup with the tables that it made start over, the mark 'after NAME', and a short backup. No lock is
    held while COMMAND runs, so scheduled backups continue. The exit code is COMMAND's, or if that is 0, that of the
    steps after it.
    """
    output = Output(as_json=as_json)
    name = name or Path(command[0]).name
    before, after = f"before {name}", f"after {name}"
    check_name(before)
    if shutil.which(command[0]) is None:
        raise UsageError(f"there is no command {command[0]!r}: nothing was done")
    source = source or only_source(url)
    value: dict[str, Any] = {"before": _begin(url, source, before, wait, output), "command": command}
    code = value["exit_code"] = _run(command, output)
    output.say(f"{command[0]} ended with {code}")
    try:
        value["after"] = _end(url, source, after, wait, output)
    except (HoldfastError, StoreError) as error:
        value["error"] = sentence(error)
        output.say(f"holdfast: {sentence(error)}; the next incremental backup continues from here")
        code = code or exit_code_of(error)
    value["back"] = _way_back(url, source, before)
    output.result(value, f"to go back: {value['back']}")
    raise typer.Exit(code)


def _begin(url: str, source: str, mark: str, wait: float, output: Output) -> dict[str, Any]:
    back_up_changes(url, source, wait=wait, output=output)
    return _mark(url, source, mark, output)


def _end(url: str, source: str, mark: str, wait: float, output: Output) -> dict[str, Any]:
    back_up_changes(url, source, wait=wait, output=output)
    marked = _mark(url, source, mark, output)
    back_up_changes(url, source, wait=wait, output=output)
    return marked


def _mark(url: str, source: str, mark: str, output: Output) -> dict[str, Any]:
    value = mark_now(url, source, mark)
    output.say(mark_sentence(value))
    return value


def _run(command: Sequence[str], output: Output) -> int:
    """Run the command to its end, and return its exit code, which is 128 and more for a signal, as in shells.

    Signals that would end us end the child, since there is work to do after it. Ctrl-C has reached the child already.
    """
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            return
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    with _handled_by(pass_on):
        try:
            child = subprocess.Popen(command, stdout=2 if output.as_json else None)
        except OSError as error:
            output.say(f"holdfast: {command[0]} could not be started: {error.strerror}")
            return _NOT_FOUND
        for number in early:
            child.send_signal(number)
        code = child.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Install a handler for the signals that end a process, until the block ends."""
    kept = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, before in kept.items():
            signal.signal(number, before)


def _way_back(url: str, source: str, mark: str) -> str:
    """Return the restore command for a mark, into a new database beside the source."""
    name, _, address = places.source(url, source)
    to = address.at_database(f"{address.database}_before").url
    return shlex.join(["holdfast", "restore", url, "--source", name, "--to", to, "--at", mark])
