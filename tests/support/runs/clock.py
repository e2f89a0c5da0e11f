"""The clock of continuous integration: how long the tests took, and what grew where that is too long.

``python -m tests.support.runs.clock LOG RAN WHOLE`` reads the log of a run, what its tests took, and the seconds of it
all.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.runs.durations import RECORDED, Durations, spelled

LOUD_S = 20 * 60
"""Tests that take longer are said to."""

LIMIT_S = 40 * 60
"""Tests that take longer fail the run: machines were seen to differ by more than twice from one hour to the next."""

_ROOT = Path(__file__).resolve().parents[3]
_CLOSING = re.compile(r"^=+ .* in ([0-9.]+)s.* =+$", re.MULTILINE)
_NAMED = 10


@dataclass(frozen=True)
class Verdict:
    """What is printed, and the exit code."""

    lines: tuple[str, ...]
    code: int


def judge(log: str, *, ran: Durations, recorded: Durations, whole: float) -> Verdict:
    """Judge a run by its log.

    :param ran: what its tests took
    :param recorded: what they took when that was last recorded
    :param whole: seconds of everything, setting up among it
    """
    closing = list(_CLOSING.finditer(re.sub(r"\x1b\[[0-9;]*m", "", log)))
    if not closing:
        return Verdict((f"No test was run, in {spelled(whole)}.",), 1)
    seconds = float(closing[-1][1])
    time = f"The tests took {spelled(seconds)}; all, {spelled(whole)}."
    return Verdict((*_warning(seconds, ran, recorded), closing[-1][0], time), int(seconds > LIMIT_S))


def grown(ran: Durations, recorded: Durations) -> list[str]:
    """The files that take longer than recorded, by how much."""
    found = [(took - recorded.expected(file, ran), took, file) for file, (took, _) in ran.files.items()]
    return [
        f"{spelled(took)} in {file}, {spelled(took - more)} as recorded"
        for more, took, file in sorted(found, reverse=True)
        if more > 0
    ]


def _warning(seconds: float, ran: Durations, recorded: Durations) -> list[str]:
    if seconds <= LOUD_S:
        return []
    said = f"THE TESTS TAKE TOO LONG: {spelled(seconds)}, and more than {spelled(LOUD_S)} is too much"
    failed = f"; above {spelled(LIMIT_S)}, as here, this fails" if seconds > LIMIT_S else ""
    return [f"{said}{failed}. What grew most:", *(f"  {line}" for line in grown(ran, recorded)[:_NAMED])]


def main(log: str, ran: str, whole: str) -> int:
    """Print the verdict; return the exit code."""
    verdict = judge(
        Path(log).read_text(errors="replace"),
        ran=Durations.read(Path(ran)),
        recorded=Durations.read(_ROOT / RECORDED),
        whole=float(whole),
    )
    sys.stdout.write("".join(f"{line}\n" for line in verdict.lines))
    return verdict.code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
