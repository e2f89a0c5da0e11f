"""How commands speak: results on stdout (one JSON object with --json), words and progress on stderr."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console

from holdfast.sources.postgresql.connection.address import hide_passwords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from holdfast.archive.format.runs import RunRecord


class Output:
    """Where one command's words go.

    :param as_json: print the result as one JSON object.
    :ivar words: where everything goes that is not the result.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.words = Console(stderr=True, highlight=False, soft_wrap=True)
        self._results = Console(highlight=False, soft_wrap=True)
        self._last = ""
        self._heard = 0

    def say(self, words: str) -> None:
        """Tell the person something that is not the result."""
        self.words.print(hide_passwords(words), markup=False)

    def failure(self, words: str, code: int) -> int:
        """Say why the command failed and return the exit code, which the JSON object repeats."""
        self.say(f"holdfast: {words}")
        if self.as_json:
            sys.stdout.write(json.dumps({"error": hide_passwords(words), "exit_code": code}) + "\n")
            sys.stdout.flush()
        return code

    def result(self, value: Mapping[str, Any], show: Callable[[Console], None]) -> None:
        """Give the result: `value` as JSON, or what `show` prints for people."""
        if self.as_json:
            sys.stdout.write(json.dumps(value, default=str) + "\n")
        else:
            show(self._results)

    def hear(self, record: RunRecord | None) -> None:
        """Show what a job has told since the last time."""
        for words in record.said[self._heard :] if record else ():
            self.say(words)
            self._heard += 1

    def progress(self, record: RunRecord | None) -> None:
        """Show where a job is, when that has changed, and what it has told since."""
        self.hear(record)
        line = record.describe() if record else ""
        if line and line != self._last:
            self._last = line
            self.say(f"  {line}")


def show_rows(console: Console, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table whose lines are as long as they must be: what is cut short could not be asked for."""
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        console.print(f" {line}".rstrip(), markup=False)


def told_waiting(waiting: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line about each table that waits to begin anew, as `status` and `points` tell of them."""
    for each in waiting:
        do = "somebody has to mend that" if each["act"] else "the next backup tries again"
        yield f"{each['table']} waits since {each['since']}, its rows are known up to then: {each['reason']}; {do}"
