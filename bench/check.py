"""`python -m bench.check`: the ratios that README claims, of little data, in minutes: has one of them fallen by half?

Little data makes other ratios than much, so each is compared with what it was with the same data
(`results/check.json`). Only a great fall counts: the peer ran in the same rounds, but seconds are easily disturbed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.support.command import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KNOWN = Path(__file__).with_name("results") / "check.json"

LEAST = 0.5
"""Of a ratio as it was."""


@dataclass(frozen=True)
class Check:
    """A bench with little data.

    :param module: of its command.
    :param name: of its report.
    :param arguments: that make it small.
    """

    module: str
    name: str
    arguments: Sequence[str]


CHECKS = (
    Check(
        "bench.backup_restore",
        "backup_restore",
        ("--rows", "150000", "--tables", "1000", "--large-rows", "2", "--large-value", "8", "--rounds", "2"),
    ),
    Check("bench.changes", "changes", ("--rows", "100000", "--many", "200000", "--rounds", "2")),
    Check(
        "bench.compaction", "compaction", ("--changes", "400000", "--rows", "200000", "--blocks", "8", "--rounds", "2")
    ),
)

Ratios = dict[str, float]
"""Ratios of our speed to the peer's, by bench and comparison."""


def measure() -> Ratios:
    """Run every small bench and return its ratios, by the best times of both.

    :raises RuntimeError: a bench failed, with the end of what it said.
    """
    found: Ratios = {}
    for check in CHECKS:
        say(f"{check.module} {' '.join(check.arguments)}")
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
            report = Path(folder) / f"{check.name}.json"
            command = [sys.executable, "-m", check.module, *check.arguments, "--results", folder]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            # Targets are for much data: that one is missed here says nothing.
            if not report.exists():
                raise RuntimeError(f"{check.module} failed: {done.stderr[-2000:]}")
            ratios = json.loads(report.read_text())["ratios"]
        found |= {f"{check.name}: {each['comparison']['what']}": each["best"] for each in ratios}
    return found


def fallen(now: Ratios, before: Mapping[str, float]) -> list[str]:
    """Return, in words, which ratios are gone or less than a part of what they were."""
    words = []
    for name, was in before.items():
        if name not in now:
            words.append(f"{name}: it was {was:.2f}, and is not measured any more")
        elif now[name] < LEAST * was:
            words.append(f"{name}: it was {was:.2f}, and is {now[name]:.2f}")
    return words


def main() -> int:
    """Measure, compare, or record; 0 where no ratio has fallen by half."""
    parser = argparse.ArgumentParser(prog="python -m bench.check", description="Find ratios that fell by half.")
    parser.add_argument("--record", action="store_true", help="write what is measured as what is to be")
    parser.add_argument("--known", type=Path, default=KNOWN, help="file of what it was")
    given = parser.parse_args()
    if not given.record and not given.known.exists():
        print(f"bench.check: {given.known} is not there: record first what the ratios are (--record)", file=sys.stderr)
        return 1
    try:
        now = measure()
    except RuntimeError as error:
        print(f"bench.check: {error}", file=sys.stderr)
        return 1
    before: Ratios = json.loads(given.known.read_text()) if given.known.exists() else {}
    for name, ratio in now.items():
        say(f"{ratio:6.2f}  {f'({before[name]:.2f} before)  ' if name in before else ''}{name}")
    if given.record:
        given.known.write_text(json.dumps({name: round(ratio, 3) for name, ratio in now.items()}, indent=1) + "\n")
        return 0
    for words in (down := fallen(now, before)):
        print(f"fell by half: {words}", file=sys.stderr)
    return 1 if down else 0


if __name__ == "__main__":
    sys.exit(main())
