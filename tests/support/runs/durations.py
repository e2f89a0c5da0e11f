"""How long tests took when that was last recorded: what the order of a run, and its clock, go by."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import median

RECORDED = Path("tests", "durations.json")
"""Where the project keeps them, from its root."""

LONG_S = 5.0
"""Tests that take longer are recorded one by one, others only in the sum of their file."""


def file_of(nodeid: str) -> str:
    """The file that a test is in."""
    return nodeid.split("::", 1)[0]


def folder_of(file: str) -> str:
    """The folder that a file is in."""
    return file.rpartition("/")[0]


def spelled(seconds: float) -> str:
    """A time as people say it: ``40 s``, ``14 min``, ``2 h 5 min``."""
    if seconds < 60:
        return f"{round(seconds)} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return " ".join([*([f"{hours} h"] if hours else []), *([f"{minutes} min"] if minutes or not hours else [])])


def by_file(nodeids: Iterable[str]) -> dict[str, list[str]]:
    """The tests of each file, in their order."""
    return {file: list(tests) for file, tests in groupby(sorted(nodeids, key=file_of), key=file_of)}


@dataclass(frozen=True)
class Durations:
    """Seconds, setup and teardown among them.

    :param files: by file, the sum of all its tests and how many they are
    :param tests: those of the long ones
    """

    files: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    tests: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> Durations:
        """Read what was written; what is missing or cannot be read says nothing."""
        try:
            found = json.loads(path.read_text())
            files = {file: (int(seconds), int(count)) for file, (seconds, count) in found["files"].items()}
            return Durations(files, {test: int(seconds) for test, seconds in found["tests"].items()})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return Durations()

    def write(self, path: Path) -> None:
        """Write it, a line for each file and test, so that changes are short."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{{\n"files": {_lines(self.files)},\n"tests": {_lines(self.tests)}\n}}\n')

    def merged(self, taken: Mapping[str, float], *, whole: bool) -> Durations:
        """Put what a run took in the place of what was recorded.

        :param taken: seconds by test
        :param whole: whether the run had all tests: then nothing is kept but what it took
        """
        files: dict[str, tuple[int, int]] = {} if whole else dict(self.files)
        long = {} if whole else {test: seconds for test, seconds in self.tests.items() if test not in taken}
        for file, tests in by_file(taken).items():
            kept = [seconds for test, seconds in long.items() if file_of(test) == file]
            files[file] = (round(sum(taken[test] for test in tests) + sum(kept)), len(tests) + len(kept))
        long |= {test: round(seconds) for test, seconds in taken.items() if seconds > LONG_S}
        return Durations(files, long)

    def without_files_gone(self, root: Path) -> Durations:
        """What is recorded of files that are still there."""
        return Durations(
            {file: entry for file, entry in self.files.items() if (root / file).exists()},
            {test: seconds for test, seconds in self.tests.items() if (root / file_of(test)).exists()},
        )

    def estimate(self, nodeids: Sequence[str]) -> dict[str, float]:
        """Seconds that each test takes: its own, or its share of its file's, or of what a file of its folder takes."""
        found: dict[str, float] = {}
        for file, tests in by_file(nodeids).items():
            share = self._share(file, len(tests))
            found |= {test: float(self.tests.get(test, share)) for test in tests}
        return found

    def unknown(self, nodeids: Sequence[str]) -> int:
        """How many of the tests have no recorded duration."""
        missing = 0
        for file, tests in by_file(nodeids).items():
            short = [test for test in tests if test not in self.tests]
            missing += max(0, len(short) - self._short(file)[1])
        return missing

    def expected(self, file: str, ran: Durations) -> int:
        """Seconds that a run's tests of a file should have taken: without the long ones that it left out."""
        left_out = [self.tests[test] for test in self._long(file) if test not in ran.tests]
        return max(0, self.files.get(file, (0, 0))[0] - sum(left_out))

    def _long(self, file: str) -> list[str]:
        return [test for test in self.tests if file_of(test) == file]

    def _short(self, file: str) -> tuple[float, int]:
        """Seconds of the tests of a file that are not recorded one by one, and how many they are."""
        seconds, count = self.files.get(file, (0, 0))
        long = self._long(file)
        return max(0.0, seconds - sum(self.tests[test] for test in long)), max(0, count - len(long))

    def _share(self, file: str, count: int) -> float:
        """Seconds of a test that is not recorded one by one, in a file of so many."""
        if file in self.files:
            seconds, recorded = self._short(file)
            return seconds / max(1, recorded)
        if not self.files:
            return 1.0
        beside = [took for each, (took, _) in self.files.items() if folder_of(each) == folder_of(file)]
        return median(beside or [took for took, _ in self.files.values()]) / count


def _lines(entries: Mapping[str, object]) -> str:
    lines = [f"  {json.dumps(name)}: {json.dumps(entries[name])}" for name in sorted(entries)]
    return "{\n" + ",\n".join(lines) + "\n}"
