"""Backups in this process and without Spark, of archives that are only measured later."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from holdfast.archive import locks
from holdfast.archive.format.runs import read_last
from holdfast.operations import backup_run, job_process
from holdfast.operations.requests.backup import BackupRequest
from locking import Owner
from sparkjobs import backup
from sparkjobs.driver.application import Job
from sparkjobs.executors.inline import InlineExecutor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.postgresql.connection.address import Address
    from holdfast.storage import ObjectStore


def back_up(store: ObjectStore, source: str, address: Address, *, kind: str, run: str) -> dict[str, Any]:
    """Back up a database, and return what the run says.

    :raises HoldfastError: it failed.
    """
    wanted = BackupRequest.given(source=source, kind=kind)
    with locks.acquire(store, "backup", sources=[source], owner=Owner(), purpose="bench", wait=0) as held:
        told = job_process.job_environment(address.url, address.password, held)

        def attempt(more: Mapping[str, str]) -> str:
            with patch.dict(os.environ, {**told, **more}):
                job = Job(store, run, "backup", locks.attach(store, held.handles()), InlineExecutor(cores=2))
                with job.log:
                    job.log.result = backup.back_up(job, source)
            return ""

        backup_run.run_to_the_end(store, run, address, request=wanted, attempt=attempt, executor="inline")
    last = read_last(store, run)
    return last.result or {} if last else {}
