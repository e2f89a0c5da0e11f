"""ReapLocks: what is over goes, what is held stays."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from typing import Any

import pytest

import locking
from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.operators import ReapLocks
from locking import RWLock


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


def test_an_unknown_archive_is_refused(context: dict[str, Any]) -> None:
    with pytest.raises(JobRefused, match="nope"):
        reap("nope", context)


def test_the_archive_may_be_a_url(store: ObjectStore, context: dict[str, Any]) -> None:
    assert reap(store.url, context) == []
