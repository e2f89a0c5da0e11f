"""Cases of the fuzzer: an archive is copied, mutated, and all commands must come to a good end."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from holdfast.storage import open_store
from holdfast.storage.encryption.key_source import ENVIRONMENT
from tests.support.fuzz.mutations import Subject, mutate

SECONDS = 30.0
"""A command that takes longer has failed; each takes a tenth of a second on a whole archive."""

RESIDENT = 900 << 20
"""Bytes of memory that a child may have at most, with all that is imported."""

CODES = range(7)
"""Those that are documented."""

_UNFORESEEN = re.compile(r"unexpected |please report|Traceback|Error: |internal error|Exception")
_KEPT = ("archive.json", "commits", "checkpoints", "data", "keys")
"""What no command that reads may change."""


@dataclass(frozen=True)
class Original:
    """A whole archive, as cases begin with it.

    :param key: the address of its key; None where it is in the clear.
    :param targets: what queries ask of it: recovery targets, each with a statement.
    """

    folder: Path
    key: str | None
    targets: Sequence[tuple[str, str]]

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment of commands that open it."""
        return {ENVIRONMENT: self.key} if self.key else {}


@dataclass
class Runner:
    """The process that runs commands."""

    process: subprocess.Popen[str]

    def run(self, commands: Sequence[Sequence[str]], environment: Mapping[str, str]) -> dict[str, Any]:
        """Run commands, and return what became of them."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        case = {"commands": commands, "environment": dict(environment), "seconds": SECONDS}
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the process of the commands has ended"
        found: dict[str, Any] = json.loads(line)
        return found


@contextmanager
def running() -> Iterator[Runner]:
    """Start the process that runs commands, and end it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.fuzz.limited"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"},
        cwd=Path(__file__).parents[3],
    )
    with process:
        try:
            yield Runner(process)
        finally:
            process.kill()


NONE: Mapping[str, str] = MappingProxyType({})


@dataclass
class Case:
    """One mutated archive.

    :param place: an empty folder for it.
    :param mutates: how often; None: as is drawn. `writes`, likewise: whether commands that write are run, too.
    :param mutation: what is done to it, instead of what is drawn.
    :ivar read: how many recovery targets could be read before these.
    :ivar mutations: what was done to it.
    :ivar faults: what went wrong.
    """

    original: Original
    seed: int
    place: Path
    runner: Runner
    mutates: int | None = None
    writes: bool | None = None
    mutation: Callable[[Subject], str] | None = None
    read: int = 0
    mutations: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def run(self) -> list[str]:
        """Mutate, read, write, and return what went wrong."""
        draw = random.Random(self.seed)
        self._begin(draw)
        before = self._kept()
        self._run(self._reading())
        if self._kept() != before:
            self.faults.append("a command that reads has changed the archive")
        if draw.random() < 0.4 if self.writes is None else self.writes:
            self._write()
        self._outside_is_as_it_was()
        return self.faults

    def clean_up(self) -> None:
        """Remove the folder of the case."""
        shutil.rmtree(self.place)

    @property
    def archive(self) -> Path:
        return self.place / "archive"

    def _begin(self, draw: random.Random) -> None:
        outside = self.place / "outside"
        outside.mkdir(parents=True)
        (outside / "canary").write_text("as it was")
        shutil.copytree(self.original.folder, self.archive)
        subject = Subject(open_store(str(self.archive), self.original.key), self.archive, outside)
        if self.mutation is not None:
            self.mutations.append(self.mutation(subject))
            return
        drawn = draw.choice((1, 1, 1, 2, 3))
        for _ in range(drawn if self.mutates is None else self.mutates):
            self.mutations.append(mutate(subject, draw))

    def _reading(self) -> list[list[str]]:
        url = str(self.archive)
        (_, statement), *_ = self.original.targets
        return [
            ["status", url, "--json"],
            ["points", url, "--json"],
            ["points", url],
            ["verify", url, "--json"],
            ["verify", url, "--deep", "--json"],
            ["verify", url, "--new"],
            ["vacuum", url, "--dry-run", "--grace", "0s", "--json"],
            ["compact", url, "--dry-run", "--json"],
            ["compact", url, "--dry-run", "--consolidate"],
            ["truncate", url, "--keep", "last=1", "--dry-run", "--json"],
            ["query", url, statement, "--json"],
            ["locks", "list", url, "--json"],
            ["locks", "explain", url],
            ["hold", "list", url, "--json"],
            ["drill", url, "--history", "--json"],
            ["copy", url, str(self.place / "planned"), "--dry-run", "--json"],
            ["copy", url, str(self.place / "copy"), "--before-damage", "--json"],
        ]

    def _write(self) -> None:
        """Run what writes; all that could be read before must be as it was."""
        url = str(self.archive)
        before = self._readable()
        self.read = len(before)
        self._run(
            [
                ["locks", "reap", url, "--json"],
                ["truncate", url, "--keep", "last=100", "--json"],
                ["compact", url, "--min-blocks", "2", "--json"],
                ["vacuum", url, "--grace", "0s", "--wait", "1", "--json"],
            ]
        )
        after = self._readable()
        if lost := [at for at, rows in before.items() if after.get(at) != rows]:
            self.faults.append(f"what is written has made {', '.join(lost)} unreadable, or something else")

    def _readable(self) -> dict[str, Any]:
        """Return what is read of each recovery target that can be read."""
        url = str(self.archive)
        commands = [["query", url, statement, "--at", at, "--json"] for at, statement in self.original.targets]
        return {command[4]: json.loads(out)["rows"] for command, code, out in self._run(commands) if code == 0}

    def _run(self, commands: list[list[str]]) -> list[tuple[list[str], int, str]]:
        told = self.runner.run(commands, self.original.environment)
        for done in told["done"]:
            if fault := _fault(done):
                self.faults.append(f"{' '.join(self._said(done['command']))}: {fault}")
        if told["ended"] != 0:
            command = commands[min(len(told["done"]), len(commands) - 1)]
            self.faults.append(f"{' '.join(self._said(command))}: its process ended: {told['ended']}")
        if told["resident"] > RESIDENT:
            self.faults.append(f"{told['resident'] >> 20} MB of memory were taken")
        return [(done["command"], done["code"], done["out"]) for done in told["done"]]

    def _said(self, command: Sequence[str]) -> list[str]:
        return [word.replace(str(self.place), "…") for word in command]

    def _kept(self) -> dict[str, tuple[int, ...]]:
        """Return the size, the time and the kind of what no command that reads may change."""
        paths = [path for name in _KEPT for path in [self.archive / name, *(self.archive / name).rglob("*")]]
        found = {path: path.lstat() for path in paths if path.is_symlink() or path.exists()}
        return {
            str(path.relative_to(self.archive)): (at.st_mode, at.st_ino, at.st_size, at.st_mtime_ns)
            for path, at in found.items()
            if not path.is_dir() or path.is_symlink()
        }

    def _outside_is_as_it_was(self) -> None:
        there = {path.name for path in self.place.iterdir()} - {"archive", "copy"}
        outside = {path.name: path.read_text() for path in (self.place / "outside").iterdir()}
        if (there, outside) != ({"outside"}, {"canary": "as it was"}):
            self.faults.append(f"something was written outside of the archive: {there}, {sorted(outside)}")


def _fault(done: Mapping[str, Any]) -> str:
    """Return what is wrong with the end of a command, or nothing."""
    code, err, seconds = done["code"], done["err"], done["seconds"]
    if code not in CODES or (code == 2 and "Usage" in err):
        return f"exit code {code}: {err[-500:]}"
    if found := _UNFORESEEN.search(err):
        return f"exit code {code}, {found[0]!r} in {err[-500:]}"
    if code != 0 and not err.strip() and "damage" not in done["out"] and '"' not in done["out"]:
        return f"exit code {code} without a word"
    if code != 0 and err.count("holdfast: ") > 1:
        return f"exit code {code} with more than one sentence: {err[-500:]}"
    return f"took {seconds:.0f} s" if seconds > SECONDS else ""
