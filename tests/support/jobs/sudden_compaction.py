"""A compaction in a process of its own, without Spark, that can be made to end at any step; run as a program.

Its locks are those of the process that starts it, as those of a driver are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pyarrow.fs import FileSystem

from holdfast.archive import locks
from holdfast.operations.job_process import LOCKS_VARIABLE
from holdfast.storage import ObjectStore, open_store
from locking import Owner
from sparkjobs import compaction
from sparkjobs.driver import application
from tests.support.jobs.inline_jobs import SteadyExecutor
from tests.support.jobs.steps import Kill, SteppedStore, Steps

OPTIONS = ("--consolidate", "--min-blocks", "2", "--min-age", "0s")
"""Join whatever can be joined, and make snapshots."""


@dataclass(frozen=True)
class Ended:
    """How the process ended: its exit code, negative for a signal, and what it wrote to stderr."""

    code: int
    said: str


class _Store(SteppedStore):
    def filesystem(self) -> tuple[FileSystem, str]:
        return self._store.filesystem()


def compact_and_die(store: ObjectStore, run: str, kill: Kill, options: Sequence[str] = OPTIONS) -> Ended:
    """Compact an archive up to a step."""
    with locks.acquire(store, "compaction", owner=Owner(), purpose="test", wait=0) as held:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.support.jobs.sudden_compaction",
                json.dumps(asdict(kill)),
                store.url,
                run,
                *options,
            ],
            env={**os.environ, LOCKS_VARIABLE: held.handles()},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=False,
        )
    return Ended(done.returncode, done.stderr)


def main() -> int:
    """Compact as the arguments say, by way of a store that counts."""
    kill, url, run, *options = sys.argv[1:]
    wanted = Kill(**json.loads(kill))
    store = _Store(open_store(url), Steps(wanted.at, wanted.when, lambda name: None, wanted.named))
    for name, value in (("open_store", lambda url: store), ("make_executor", lambda operation: SteadyExecutor())):
        getattr(application, name)  # what is not there would be replaced without effect
        setattr(application, name, value)
    return compaction.main(["--archive", url, "--run", run, *options])


if __name__ == "__main__":
    sys.exit(main())
