"""A stand-in for a scheduler: starts operations beside each other, and often the same one twice, as two schedulers do.

    python -m soak.scheduler FOLDER NAME SEED AT-A-TIME

It may be killed at any time: what it has started goes on. When FOLDER/stop appears, it starts nothing more and ends.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from soak.journal import Journal, named, read
from soak.operations import Acknowledged, Choice

if TYPE_CHECKING:
    from soak.operations import Operation

TWICE = 0.15
"""So often an operation is started twice at once."""

_LOOK_S = 0.5


class Scheduler:
    """Starts operations until it is stopped."""

    def __init__(self, folder: Path, name: str, seed: int, most: int) -> None:
        self._folder = folder
        self._name = name
        self._most = most
        self._random = random.Random(f"{seed}/{name}")
        settings = json.loads((folder / "settings.json").read_text())
        self._choice = Choice(self._random, clock=settings["clock"])
        self._journal = Journal(folder / "journal", f"scheduler-{name}")
        self._running: list[subprocess.Popen[bytes]] = []
        self._numbers = itertools.count(1)

    def run(self) -> None:
        """Start operations, a few at a time."""
        while not (self._folder / "stop").exists():
            self._running = [each for each in self._running if each.poll() is None]
            if len(self._running) < self._most and not (self._folder / "pause").exists():
                self._choice.backups = acknowledged(self._folder)
                operation = self._choice.next()
                for _ in range(2 if self._random.random() < TWICE else 1):
                    self._start(operation)
            time.sleep(self._random.uniform(0, 2 * _LOOK_S))

    def _start(self, operation: Operation) -> None:
        identity = f"{self._name}-{next(self._numbers)}"
        (self._folder / "orders" / f"{identity}.json").write_text(json.dumps(operation.as_json()))
        with (self._folder / "logs" / f"{identity}.runner").open("wb") as said:
            self._running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "soak.runner", self._folder, identity],
                    stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True, env=os.environ,
                )
            )  # fmt: skip


def acknowledged(folder: Path) -> list[Acknowledged]:
    """Return the backups that were reported as done, in the order of their moments."""
    ends = named(read(folder / "journal", only="operation-*"), "end")
    found = [
        Acknowledged(each["id"], each["source"], each["result"]["restorable_to"])
        for each in ends
        if each["code"] == 0 and each["kind"].startswith("backup") and each["result"].get("restorable_to")
    ]
    return sorted(found, key=lambda backup: backup.at)


def main(folder: str, name: str, seed: str, most: str) -> None:
    """Run a scheduler."""
    Scheduler(Path(folder), name, int(seed), int(most)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
