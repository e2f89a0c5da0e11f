"""Tasks that run under a lock, in one `with` block."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from holdfast_airflow.operators.acquire_lock import AcquireLock
from holdfast_airflow.operators.keep_lock import KeepLock
from holdfast_airflow.operators.release_lock import ReleaseLock

if TYPE_CHECKING:
    from collections.abc import Iterator

LEASE = timedelta(minutes=10)
"""How long a lock outlives its run where nobody gives it back; the time a worker may take to begin to renew it."""


@contextmanager
def archive_lock(name: str = "lock", *, lease: timedelta = LEASE, **acquire: Any) -> Iterator[AcquireLock]:
    """Run the tasks of the block under a lock of an archive.

    The lock is renewed until the last of them has ended.

        with archive_lock(archive="shop", resource="warehouse-load"):
            extract() >> load()

    Makes three tasks: `acquire_<name>` (a setup), `keep_<name>` and `release_<name>` (teardowns). Clearing a task of
    the block takes the lock anew.

    :param name: the end of the tasks' ids.
    :param lease: how long the lock stays when its run was ended without giving it back.
    :param acquire: what else :class:`AcquireLock` takes: `archive`, `resource`, `mode`, `purpose`, `max_hold`, `wait`.
    """
    take = AcquireLock(task_id=f"acquire_{name}", lease=lease, **acquire)
    KeepLock(task_id=f"keep_{name}", acquire=take.task_id).as_teardown(setups=take, on_failure_fail_dagrun=True)
    with ReleaseLock(task_id=f"release_{name}", acquire=take.task_id).as_teardown(setups=take):
        yield take
