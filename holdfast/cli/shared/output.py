"""Output of commands: results on stdout (one JSON object with --json), messages and progress on stderr."""

from __future__ import annotations

import json
import math
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console

from holdfast.common.errors import UsageError
from holdfast.postgresql.connection.address import hide_passwords
from locking.one_line import guard_last_resort, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.text import Text

    from holdfast.archive.format.runs import RunRecord

    Lines = str | Iterable[str] | Callable[[Console], None]


_CLEAR: Final = "\r\x1b[2K"
_LINE_EVERY_S: Final = 60.0
"""Seconds between two lines of progress where nothing can be rewritten."""

RowFormat = Literal["table", "csv", "json", "jsonl"]

Formatted = Annotated[
    RowFormat,
    typer.Option(
        "--format",
        help="A table for people; CSV, with NULL as nothing and an empty text as two quotes; all of the result as one "
        "JSON object, as --json; or a JSON object a row.",
    ),
]


class LineConsole(Console):
    """A console that prints each text as one line: no markup, no emoji, nothing that a terminal obeys."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text with all that a terminal obeys escaped; rich makes cells and titles by this, too."""
        return super().render_str(one_line(text), **{**options, "markup": False, "emoji": False})


class Output:
    """The output of one command.

    :param form: of a result that has rows.
    :ivar words: the console of everything but the result.
    """

    def __init__(self, *, as_json: bool, form: RowFormat = "table") -> None:
        guard_last_resort()
        self.as_json = as_json or form == "json"
        self._form = form
        self.words = LineConsole(stderr=True)
        self._results = LineConsole()
        self._began = self._reported = time.monotonic()
        self._heard = 0  # messages of the job that were printed
        self._number, self._seen = -1, 0.0
        self._shown = -math.inf
        self._is_open = False

    def say(self, words: str) -> None:
        """Print a message that is not the result."""
        self._close()
        self.words.print(hide_passwords(words))

    def report(self, words: str, *, every_s: float) -> None:
        """Print progress, unless the last was printed less than so many seconds ago."""
        if (now := time.monotonic()) - self._reported >= every_s:
            self._reported = now
            self.say(f"  {words}")

    def failure(self, words: str, code: int) -> int:
        """Print the reason of a failure, with --json also as an object; return the exit code."""
        self.say(f"holdfast: {words}")
        if self.as_json:
            sys.stdout.write(_json({"error": hide_passwords(words), "exit_code": code}))
            sys.stdout.flush()
        return code

    def confirm(self, name: str, consequence: str, *, yes: bool) -> None:
        """Ask a person to type a name before work that cannot be undone; `--yes` answers.

        :param consequence: a sentence on what becomes of it.
        :raises UsageError: another name was typed, or there is no terminal to ask at.
        """
        if yes:
            return
        self.say(consequence)
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError("this cannot be undone, and there is no terminal to ask at: nothing was done. Add --yes")
        if typer.prompt(f"This cannot be undone. Type {one_line(name)} to continue", err=True) != name:
            raise UsageError(f"that is not {name}: nothing was done")

    def result(self, value: Mapping[str, Any], lines: Lines) -> None:
        """Print the result: `value` as JSON, or its lines for people."""
        self._close()
        if self.as_json:
            sys.stdout.write(_json(value))
        elif callable(lines):
            lines(self._results)
        else:
            for line in [lines] if isinstance(lines, str) else lines:
                self._results.print(line)

    def rows(
        self,
        head: Sequence[str],
        rows: Iterable[Sequence[Any]],
        value: Mapping[str, Any],
        lines: Lines,
        remarks: Iterable[str],
    ) -> None:
        """Print a result that has rows: these alone as CSV or as lines of JSON, else as `result` does.

        :param head: the names of the columns.
        :param lines: the table and the remarks; `remarks`: those alone, for stderr beside bare rows.
        :raises UsageError: each row is to be an object, and two columns have one name.
        """
        if self.as_json or self._form == "table":
            self.result(value, lines)
            return
        if self._form == "csv":
            printed = (_csv_line(row) for row in (head, *rows))
        else:
            if twice := next((name for name in head if list(head).count(name) > 1), None):
                raise UsageError(f"two columns are called {twice}: rename one with AS")
            printed = (_json(dict(zip(head, row, strict=True))) for row in rows)
        for line in printed:
            # A terminal would obey what is in a value; a file gets it as it is.
            sys.stdout.write(f"{one_line(line[:-1])}\n" if sys.stdout.isatty() else line)
        for words in remarks:
            self.say(words)

    def hear(self, record: RunRecord | None) -> None:
        """Print the messages of a job since the last call."""
        for words in record.said[self._heard :] if record else ():
            self.say(words)
            self._heard += 1

    @property
    def elapsed_s(self) -> float:
        """Return the seconds since the command began."""
        return time.monotonic() - self._began

    def progress(self, record: RunRecord | None, left_s: float | None = None) -> None:
        """Print a job's new messages and its progress: one line that is rewritten, in a file a line a minute.

        :param left_s: estimated seconds left of the whole job.
        """
        self.hear(record)
        if record is None:
            return
        now = time.monotonic()
        if record.number != self._number:
            self._number, self._seen = record.number, now
        # A job is silent in a long step; that it goes on can be seen all the same.
        line = record.model_copy(update={"elapsed_s": record.elapsed_s + now - self._seen}).describe(left_s)
        if self.words.is_terminal and not self.words.is_dumb_terminal:
            self._rewrite(f"  {line}")
        elif now - self._shown >= _LINE_EVERY_S:
            self._shown = now
            self.say(f"  {line}")

    def _rewrite(self, line: str) -> None:
        shown = set_cell_size(one_line(line), max(self.words.width - 1, 1)).rstrip()
        self.words.file.write(f"{_CLEAR if self._is_open else ''}{shown}")
        self.words.file.flush()
        self._is_open = True

    def _close(self) -> None:
        if self._is_open:
            self.words.file.write(_CLEAR)
            self.words.file.flush()
            self._is_open = False


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, default=str).replace("\x7f", "\\u007f") + "\n"  # JSON leaves DEL as it is


def _csv_line(row: Sequence[Any]) -> str:
    return ",".join(map(_csv_cell, row)) + "\n"


def _csv_cell(value: Any) -> str:
    if value is None:  # as COPY … CSV has it: NULL is nothing, and an empty text is two quotes
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return '"' + text.replace('"', '""') + '"' if not text or set(text) & set(',"\r\n') else text


def table_lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table; no cell is cut, since a name that is cut cannot be typed into a command."""
    cells = [[one_line(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        line = "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        yield f" {line}".rstrip()


def show_rows(console: Console, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table."""
    for line in table_lines(head, rows):
        console.print(line)


def waiting_lines(waiting: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line about each table that waits to start over."""
    for table in waiting:
        remedy = "this needs action" if table["act"] else "the next backup tries again"
        yield f"{table['table']} waits since {table['since']}, and has no newer rows: {table['reason']}; {remedy}"
