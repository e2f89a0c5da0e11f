"""Output of commands: results on stdout (one JSON object with --json), messages and progress on stderr."""

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
    """The output of one command.

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
        """Print a message that is not the result."""
        self.words.print(hide_passwords(words), markup=False)

    def failure(self, words: str, code: int) -> int:
        """Print the reason of a failure and return the exit code.

        With --json, an object repeats both.
        """
        self.say(f"holdfast: {words}")
        if self.as_json:
            sys.stdout.write(json.dumps({"error": hide_passwords(words), "exit_code": code}) + "\n")
            sys.stdout.flush()
        return code

    def result(self, value: Mapping[str, Any], show: Callable[[Console], None]) -> None:
        """Print the result: `value` as JSON, or as `show` prints it for people."""
        if self.as_json:
            sys.stdout.write(json.dumps(value, default=str) + "\n")
        else:
            show(self._results)

    def hear(self, record: RunRecord | None) -> None:
        """Print the messages of a job since the last call."""
        for words in record.said[self._heard :] if record else ():
            self.say(words)
            self._heard += 1

    def progress(self, record: RunRecord | None) -> None:
        """Print the new messages of a job, and its progress where that has changed."""
        self.hear(record)
        line = record.describe() if record else ""
        if line and line != self._last:
            self._last = line
            self.say(f"  {line}")


def show_rows(console: Console, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table without cutting its cells.

    A name that is cut short could not be typed into a command.
    """
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        console.print(f" {line}".rstrip(), markup=False)


def told_waiting(waiting: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line about each table that waits to start over, for `status` and `points`."""
    for each in waiting:
        do = "somebody has to mend that" if each["act"] else "the next backup tries again"
        yield f"{each['table']} waits since {each['since']}, its rows are known up to then: {each['reason']}; {do}"
