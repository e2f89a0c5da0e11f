"""ReapLocks: what is over goes, what is held stays."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import locking
from holdfast.storage import ObjectStore
from holdfast_airflow.operators import ReapLocks
from locking import Owner, RWLock


def reap(archive: str, context: dict[str, Any]) -> Any:
    return inspect.unwrap(ReapLocks.execute)(ReapLocks(task_id="reap", archive=archive), context)


def leave_behind(store: ObjectStore) -> str:
    """Have another process take a lock and end without giving it back; return its txn."""
    code = (
        "import os, sys\n"
        "from holdfast.storage import open_store\n"
        "from locking import RWLock\n"
        "lease = RWLock(open_store(sys.argv[1]), 'report').write(purpose='work', wait=0, renew=False)\n"
        "print(lease.txn, flush=True)\n"
        "os._exit(9)\n"
    )
    command = [sys.executable, "-c", code, store.url]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ).stdout.strip()


def test_what_a_killed_process_left_is_ended_and_returned(store: ObjectStore, context: dict[str, Any]) -> None:
    left = leave_behind(store)
    with RWLock(store, "held").write(wait=0) as lease:
        assert reap("shop", context) == [
            {"resource": "report", "mode": "W", "txn": left, "purpose": "work", "reason": "its process is gone"}
        ]
        assert [info.txn for info in locking.inspect(store)] == [lease.txn]
        lease.check()
    assert reap("shop", context) == []


class Task:
    """A running task, as far as it can tell of others."""

    def __init__(self, run: str | None = None, tasks: dict[str, dict[str, str | None]] | None = None) -> None:
        self._run, self._tasks = run, tasks or {}
        self.asked: list[tuple[Any, ...]] = []

    def get_dagrun_state(self, dag_id: str, run_id: str) -> str:
        self.asked.append((dag_id, run_id))
        if self._run is None:
            raise RuntimeError("not_found")
        return self._run

    def get_task_states(
        self, dag_id: str, *, task_ids: list[str], run_ids: list[str], map_index: int
    ) -> dict[str, dict[str, str | None]]:
        self.asked.append((dag_id, *run_ids, *task_ids, map_index))
        return self._tasks


RUN = Owner(scope="run", dag_id="nightly", run_id="r1", task_id="lock", map_index=-1)
TASK = replace(RUN, scope="task", task_id="back_up")


@pytest.mark.parametrize(
    ("owner", "task", "reaped"),
    [
        (RUN, Task(run="failed"), True),
        (RUN, Task(run="running"), False),
        (RUN, Task(run=None), False),
        (TASK, Task(tasks={"r1": {"back_up": "failed"}}), True),
        (TASK, Task(tasks={"r1": {"back_up": "up_for_retry"}}), False),
        (replace(TASK, map_index=2), Task(tasks={"r1": {"back_up_2": "success"}}), True),
        (replace(TASK, map_index=2), Task(tasks={"r1": {"back_up": "success"}}), False),
    ],
)
def test_a_lock_whose_lease_is_over_goes_without_its_grace_where_airflow_says_its_owner_has_ended(
    store: ObjectStore, owner: Owner, task: Task, reaped: bool
) -> None:
    over = RWLock(store, "report", owner=owner).write(wait=0, renew=False)
    RWLock(store, "young", owner=owner).write(wait=0, renew=False)
    path = Path(store.url) / f"locks/report/WRIT.{over.txn}"
    os.utime(path, (path.stat().st_mtime - 130,) * 2)  # of a lease of 120 s, with a grace of 60 s
    ended = reap("shop", {"ti": task})
    assert [(each["txn"], each["reason"]) for each in ended] == (
        [(over.txn, "its lease is over and its owner has finished")] if reaped else []
    )
    assert len(task.asked) == 1
    assert task.asked[0][:2] == ("nightly", "r1")
