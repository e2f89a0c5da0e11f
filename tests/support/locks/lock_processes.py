"""What the processes of the tests do: run as a program with a folder or URL to work in."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from holdfast.storage import open_store
from locking import Mutex, RWLock


def increment(url: str, counter: Path, times: int) -> None:
    """Add one to the number in a file, in steps that lose additions unless a lock is held."""
    store = open_store(url)
    for _ in range(times):
        with Mutex(store, "counter").acquire(wait=120) as lease:
            number = int(counter.read_text())
            lease.check()
            counter.write_text(str(number + 1))


def hold(url: str, lease: float) -> None:
    """Take a write lock, say so, and never let go."""
    taken = RWLock(open_store(url), "r", lease=lease, grace=1.0).write(purpose="dying", wait=30)
    sys.stdout.write(f"{taken.handle().to_json()}\n")
    sys.stdout.flush()
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.1)


if __name__ == "__main__":
    if sys.argv[1] == "increment":
        increment(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        hold(sys.argv[2], float(sys.argv[3]))
