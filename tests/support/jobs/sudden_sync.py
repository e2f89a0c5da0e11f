"""The job of a sync in a process of its own, without Spark, that can be made to end at any step; run as a program.

Its locks are those of the process that starts it, as those of a driver are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from holdfast.archive import locks
from holdfast.operations.job_process import LOCKS_VARIABLE
from holdfast.replication.log.store import ENVIRONMENT
from holdfast.storage import open_store
from locking import Owner
from sparkjobs import sync
from sparkjobs.driver import application
from tests.support.jobs.inline_jobs import SteadyExecutor
from tests.support.jobs.steps import Kill, SteppedStore, Steps
from tests.support.jobs.sudden_compaction import Ended
from tests.support.replicas.replicated import Replicas


def sync_and_die(given: Replicas, name: str, run: str, kill: Kill) -> Ended:
    """Sync a replica up to a step; each file is a task."""
    store = given.place(name)
    with locks.acquire(store, "sync", owner=Owner(), purpose="test", wait=0) as held:
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.jobs.sudden_sync", json.dumps(asdict(kill)), store.url, run],
            env={**os.environ, LOCKS_VARIABLE: held.handles(), ENVIRONMENT: given.coordination.url},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=False,
        )
    return Ended(done.returncode, done.stderr)


def main() -> int:
    """Sync as the arguments say, by way of a store that counts."""
    kill, url, run = sys.argv[1:]
    wanted = Kill(**json.loads(kill))
    store = SteppedStore(open_store(url), Steps(wanted.at, wanted.when, lambda name: None, wanted.named))
    replaced = (
        (application, "open_store", lambda url: store),
        (application, "make_executor", lambda operation: SteadyExecutor()),
        (sync, "TASK_BYTES", 1),
    )
    for module, name, value in replaced:
        getattr(module, name)  # what is not there would be replaced without effect
        setattr(module, name, value)
    return sync.main(["--archive", url, "--run", run])


if __name__ == "__main__":
    sys.exit(main())
