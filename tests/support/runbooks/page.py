"""The commands of a runbook, taken out of its own text, and what it shows of their output."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.jobs.command import NOTHING, Finished

RUNBOOKS = Path(__file__).parents[3] / "docs" / "runbooks"

WHOLE = ""
"""The heading of what stands before the first heading of the second level."""

_PART = re.compile(r"^#{2,3} (.+)$", re.MULTILINE)
_CODE = re.compile(r"^ *```\w*\n(?P<block>.*?)^ *```$|`(?P<span>[^`]+)`", re.MULTILINE | re.DOTALL)
_PROGRAMS = ("holdfast ", "psql ", "createdb ", "export ")
_SQL = ("select ", "begin;", "update ", "drop ", "checkpoint;", "create ", "alter ", "grant ")
_BARE = re.compile(r"holdfast [a-z-]+( [a-z-]+)?")
_VARYING = re.compile(r"[^\s;()]*\d(?:[^\s;()]*[^\s;(),:.])?( [kMG]?B\b)?")


@dataclass(frozen=True)
class Command:
    """A command of a page.

    :param text: as it is written there, on one line.
    :param shown: the lines of output below it.
    """

    text: str
    shown: tuple[str, ...] = ()


def parts(page: str) -> dict[str, str]:
    """Return the text below each heading of a runbook, by the heading; a part ends where the next one begins."""
    before, *rest = _PART.split((RUNBOOKS / f"{page}.md").read_text())
    return {WHOLE: before, **dict(zip(rest[::2], rest[1::2], strict=True))}


def commands(text: str) -> list[Command]:
    """Return the commands in a piece of a runbook: lines of its blocks, and spans that name more than a command.

    A span with `…` mentions a command and leaves out what would have to be known to run it.
    """
    return [command for found in _CODE.finditer(text) for command in _commands(found)]


def _commands(found: re.Match[str]) -> Iterator[Command]:
    if (block := found["block"]) is not None:
        lines = [line.strip() if line.strip().startswith("$ ") else line for line in block.splitlines()]
        yield from _of_block(lines)
        return
    span = " ".join(found["span"].split())
    if "…" not in span and span.startswith(("holdfast ", *_SQL)) and not _BARE.fullmatch(span):
        yield Command(span)


def _of_block(lines: list[str]) -> Iterator[Command]:
    if any(line.startswith("$ ") for line in lines):
        begins = [number for number, line in enumerate(lines) if line.startswith("$ ")]
        for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True):
            yield Command(lines[begin].removeprefix("$ "), tuple(line for line in lines[begin + 1 : end] if line))
    elif lines[0].startswith(_PROGRAMS):
        yield from (Command(line.partition(" # ")[0].strip()) for line in lines)
    elif lines[0].startswith(_SQL):
        statements = "\n".join(line for line in lines if not line.startswith("--")).split(";")
        yield from (Command(" ".join(statement.split())) for statement in statements if statement.strip())


@dataclass
class Page:
    """Parts of a runbook that a test follows from their first command to their last.

    :param run: runs the words of a `holdfast` command.
    :param query: runs statements of SQL in one session, and returns the rows of the last.
    :param names: what stands in place of the page's names and addresses, such as ARCHIVE.
    """

    name: str
    headings: tuple[str, ...]
    run: Callable[..., Finished]
    query: Callable[..., Any]
    names: dict[str, str] = field(default_factory=dict)
    _next: int = 0

    def __post_init__(self) -> None:
        there = parts(self.name)
        chosen = self.headings or tuple(there)
        self._commands = [command for heading in chosen for command in commands(there[heading])]
        self._texts = [
            tuple(line for line in found["block"].splitlines() if line)
            for heading in chosen
            for found in _CODE.finditer(there[heading])
            if found["block"]
        ]

    def does(self, words: str, *, code: int = 0, shown: bool = True, names: Mapping[str, str] = NOTHING) -> Finished:
        """Run the next command of the page, which begins with these words, and check how it ends and what it shows.

        :param code: the exit code. A command that the page shows with an output must print each of its lines, in their
            order; words that have a digit in them may differ, and `…` stands for anything.
        :param shown: False where it prints other lines than the page shows.
        :param names: more of `names`, from now on.
        """
        command = self._take(words)
        self.names.update(names)
        done = self.run(*shlex.split(self._named(command.text))[1:])
        assert done.code == code, (command.text, done)
        if shown:
            self._shows(command.shown, done)
        return done

    def asks(self, *words: str) -> Any:
        """Run the next commands of the page, which are SQL, in one session; returns the rows of the last.

        :param words: what each of them begins with.
        """
        return self.query(*(self._named(self._take(each).text) for each in words))

    def takes(self, words: str) -> list[str]:
        """Return the words of the next command of the page, for the test to do what it does."""
        return shlex.split(self._named(self._take(words).text))

    def shows(self, done: Finished, words: str) -> None:
        """Check that the block of the page which begins with these words is what a command has printed."""
        (shown,) = [lines for lines in self._texts if lines[0].startswith(words)]
        self._shows(shown, done)

    def shows_within(self, done: Finished, words: str) -> None:
        """Check that a command has printed that block of the page in the midst of a line."""
        (shown,) = [lines for lines in self._texts if lines[0].startswith(words)]
        for line in shown:
            pattern = loosened(self._named(line), whole=False)
            assert pattern.search(done.out + done.err), (self.name, pattern.pattern, done.out, done.err)

    def leaves_out(self, words: str, *, since: str) -> None:
        """Pass over the next command of the page, which begins with these words.

        :param since: the reason, for who reads the test.
        """
        assert since
        self._take(words)

    def ends(self) -> None:
        """Check that no command of the page is left."""
        left = [command.text for command in self._commands[self._next :]]
        assert not left, f"{self.name}.md goes on with {left}, and its test does not"

    def _take(self, words: str) -> Command:
        there = [command.text for command in self._commands[self._next : self._next + 1]]
        at = f"{self.name}.md goes on with {there}, and its test with {words!r}"
        assert [each for each in there if each.startswith(words)], at
        command = self._commands[self._next]
        self._next += 1
        return command

    def _named(self, text: str) -> str:
        for name in sorted(self.names, key=len, reverse=True):
            text = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w)", lambda _, to=self.names[name]: to, text)  # type: ignore[misc]
        return text

    def _shows(self, shown: tuple[str, ...], done: Finished) -> None:
        """Check lines that a terminal shows: those of each stream are in their order."""
        left = [done.out, done.err]
        for line in shown:
            pattern = loosened(self._named(line))
            found = [(number, match) for number, text in enumerate(left) if (match := pattern.search(text))]
            assert found, f"{self.name}.md shows {line!r} ({pattern.pattern}), which is not in {left}"
            number, match = found[0]
            left[number] = left[number][match.end() :]


def loosened(line: str, *, whole: bool = True) -> re.Pattern[str]:
    """Return the pattern of a line of output: what has a digit in it is another time, size or id each time.

    :param whole: whether nothing stands around it.
    """
    pieces, at = [], 0
    for found in re.finditer(rf"{_VARYING.pattern}|\s+|…", line):
        pieces.append(re.escape(line[at : found.start()]))
        pieces.append(r"\s+" if found[0].isspace() else r".*?" if found[0] == "…" else r"\S+?(?: [kMG]?B)?")
        at = found.end()
    pattern = "".join([*pieces, re.escape(line[at:])]).removeprefix(r"\s+")
    return re.compile(rf"^\s*{pattern}\s*$" if whole else pattern, re.MULTILINE)


def followed_parts(marks: Mapping[str, list[tuple[str, ...]]], page: str) -> set[str]:
    """Return the headings of a page that tests follow.

    :param marks: by page, the headings of each test; none for all.
    """
    return {heading for headings in marks.get(page, []) for heading in headings or parts(page)}
