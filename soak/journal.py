"""What happened, as lines of JSON: each process appends to a file of its own, with one write a line."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

Event = dict[str, Any]
"""`what` happened, and when: `at`, in seconds since 1970 by this machine's clock."""


class Journal:
    """Appends events to a file; a process that is killed loses at most the one that it was at."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / f"{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, what: str, **more: Any) -> Event:
        """Append an event that happens now, or at the time that is given as `at`."""
        event: Event = {"what": what, "at": time.time(), **more}
        os.write(self._file, f"{json.dumps(event)}\n".encode())
        return event


def read(folder: Path, *, only: str = "*") -> list[Event]:
    """Return the events of all processes, or of those with such names, in the order of their times."""
    found = [event for path in sorted(folder.glob(f"{only}.jsonl")) for event in _whole(path)]
    return sorted(found, key=lambda event: float(event["at"]))


def _whole(path: Path) -> Iterator[Event]:
    """Yield the events of a file but for a last line that is being written."""
    for line in path.read_text(errors="replace").splitlines():
        if line.endswith("}"):
            yield json.loads(line)


def named(events: Iterable[Event], *names: str) -> list[Event]:
    """Return those with one of these names."""
    return [event for event in events if event["what"] in names]
