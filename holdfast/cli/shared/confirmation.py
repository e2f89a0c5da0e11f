"""Question before work that cannot be undone: a person types the name of what it is done to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.common.errors import UsageError
from locking.one_line import one_line

if TYPE_CHECKING:
    from holdfast.cli.shared.output import Output

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask: for scripts, and wherever no person sits at a terminal.")]


def confirm(name: str, consequence: str, *, yes: bool, output: Output) -> None:
    """Ask for the name of what cannot be as before afterwards; `--yes` answers.

    :param name: to be typed.
    :param consequence: a sentence on what becomes of it.
    :raises UsageError: another name was typed, or nobody is there to be asked.
    """
    if yes:
        return
    output.say(consequence)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("this cannot be undone, and there is no terminal to ask at: nothing was done. Add --yes")
    if typer.prompt(f"This cannot be undone. Type {one_line(name)} to go on", err=True) != name:
        raise UsageError(f"that is not {name}: nothing was done")
