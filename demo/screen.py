"""What the demo shows: numbered steps, live progress, and a report at the end."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@dataclass(frozen=True)
class Line:
    """One line of the report: what was proved, whether it held, and the figures."""

    what: str
    held: bool
    figures: str


class Screen:
    """Writes to the terminal: a moving line where it is one, plain lines where it is a file."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._began = time.monotonic()
        self._number = 0

    def say(self, words: str) -> None:
        """Print a line."""
        self._console.print(words, markup=False)

    @contextmanager
    def step(self, title: str) -> Iterator[Callable[[str], None]]:
        """Show a step and how long it took; gives a function that shows where it is."""
        self._number += 1
        began = time.monotonic()
        self.say(f"{self._number}. {title}")
        if self._console.is_terminal:
            with self._console.status("…") as status:
                yield lambda words: status.update(f"   {words}".replace("[", r"\["))
        else:
            yield _Changes(self).show
        self.say(f"   done in {time.monotonic() - began:.1f} s")

    def report(self, lines: Sequence[Line], where: Sequence[tuple[str, str]]) -> bool:
        """Print the report and say whether everything held."""
        held = bool(lines) and all(line.held for line in lines)
        table = Table("", "proved", "figures", box=None, pad_edge=False)
        for line in lines:
            table.add_row("yes" if line.held else "NO", line.what, line.figures)
        self._console.print()
        self._console.print(table)
        self._console.print()
        for what, place in where:
            self.say(f"{what}: {place}")
        seconds = time.monotonic() - self._began
        self.say(f"{'Everything held' if held else 'NOT everything held'}, in {seconds:.0f} s.")
        return held


class _Changes:
    """Prints progress where nothing can be drawn over: each new step, and the same one every two seconds."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._said = ""
        self._step = ""
        self._when = 0.0

    def show(self, words: str) -> None:
        step = re.sub(r"[0-9.,]+", "", words.partition(" · ")[0])
        if step != self._step or (words != self._said and time.monotonic() - self._when > 2):
            self._said, self._step, self._when = words, step, time.monotonic()
            self._screen.say(f"   {words}")
