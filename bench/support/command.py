"""What the commands of the bench have in common: a report, what was not reached, and an end at any time."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from bench.support.forked import ForkedError
from bench.support.processes import ProgramError
from holdfast.common.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

_RESULTS = Path(__file__).parents[1] / "results"
_INTERRUPTED = 130


class Results(Protocol):
    """What was measured."""

    @property
    def missed(self) -> Sequence[str]:
        """Return what was not reached, in words."""


R = TypeVar("R", bound=Results)


def new_parser(module: str, what: str) -> argparse.ArgumentParser:
    """Return a parser of what all commands take: `rounds`, and the folder of the `results`."""
    made = argparse.ArgumentParser(prog=f"python -m {module}", description=what)
    made.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    made.add_argument("--results", type=Path, default=_RESULTS, help="folder of the report")
    return made


def measure_and_report(
    name: str,
    folder: Path,
    measure: Callable[[], R],
    *,
    as_json: Callable[[R], str],
    as_markdown: Callable[[R], str],
) -> int:
    """Measure, and write the report.

    :param name: of the report's files in the folder, without their endings.
    :return: the exit code: 0 when all was reached, 1 when something was missed or failed.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        results = measure()
    except KeyboardInterrupt:
        print("interrupted: everything that was started is ended", file=sys.stderr)
        return _INTERRUPTED
    except (ProgramError, ForkedError, HoldfastError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(as_json(results))
    report = as_markdown(results)
    (folder / f"{name}.md").write_text(report)
    print(report)
    for missed in results.missed:
        print(f"not reached: {missed}", file=sys.stderr)
    return 1 if results.missed else 0


def say(words: str) -> None:
    """Tell whoever waits how far it is."""
    print(words, flush=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
