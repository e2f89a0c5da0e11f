"""The commands, their options and their exit codes."""

from __future__ import annotations

import logging
import os
import signal
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer
from typer.exceptions import TyperException

import holdfast
from holdfast.cli.commands import Commands

if TYPE_CHECKING:
    from types import FrameType

app = typer.Typer(
    name="holdfast",
    cls=Commands,
    help="Back up SQL databases into shared archives and restore them. Exit codes: 0 done, 1 failed, 2 wrong usage, "
    "3 busy, 4 damaged or not equal, 5 refused (it would lose data), 6 outcome unknown, 130 stopped.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _show_version(chosen: bool) -> None:
    if chosen:
        typer.echo(f"holdfast {holdfast.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Back up SQL databases into shared archives and restore them."""


def _end_on_signal(number: int, frame: FrameType | None) -> None:
    """End in order on the first signal; a second one would cut short the release of the locks."""
    for ending in _ENDING:
        signal.signal(ending, signal.SIG_IGN)
    raise KeyboardInterrupt


_INTERRUPTED = 130
"""128 and the number of SIGINT, as shells have it; typer makes it of KeyboardInterrupt."""

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Run the command and exit with its code; a failure is one sentence on stderr."""
    for ending in _ENDING:
        if signal.getsignal(ending) is not signal.SIG_IGN:  # as under nohup
            signal.signal(ending, _end_on_signal)
    if not os.environ.get("HOLDFAST_DEBUG"):
        logging.getLogger("locking").setLevel(logging.ERROR)  # its cleanup would hide the failure
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except TyperException as error:
        code = _fail(error.format_message() or "no command given: choose one of those above", 2)
    except (typer.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    except BrokenPipeError:  # the reader has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as error:  # noqa: BLE001 - any becomes one sentence and an exit code
        code = _explain(error)
    if code == _INTERRUPTED:
        code = _fail("stopped, and its locks were released; run it again to continue", code)
    sys.exit(code or 0)


def _explain(error: Exception) -> int:
    from holdfast.common.errors import exit_code_of, is_ours, sentence  # --version needs none of it

    if not is_ours(error) and os.environ.get("HOLDFAST_DEBUG"):
        raise error
    where = "" if is_ours(error) else " (HOLDFAST_DEBUG=1 shows where; please report it)"
    unexpected = "" if is_ours(error) else "unexpected "
    return _fail(f"{unexpected}{sentence(error)}{where}", exit_code_of(error))


def _fail(words: str, code: int) -> int:
    from holdfast.cli.shared.output import Output  # a command that succeeds without a result needs none

    as_json = "--json" in sys.argv or "--format=json" in sys.argv or ("--format", "json") in pairwise(sys.argv)
    return Output(as_json=as_json).failure(words, code)
