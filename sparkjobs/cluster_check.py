"""Application that checks a Spark cluster: its settings, and what each worker has and reaches.

It takes no locks, and writes nothing to the archive but one object of a probe for each worker.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.format.model import Identity
from holdfast.common.errors import HoldfastError
from holdfast.operations.cluster_check import SOURCES_VARIABLE
from holdfast.operations.requests.cluster_check import ClusterCheckRequest
from holdfast.postgresql.connection.address import Address
from holdfast.storage.probe import ROUNDING
from locking.store import StoreError
from sparkjobs.driver.application import Job, end, run_request
from sparkjobs.driver.cluster_findings import ClusterFindings, clock
from sparkjobs.tasks.reach import SourceReach, StoreReach

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.common.doctor_finding import DoctorFinding
    from holdfast.storage import ObjectStore


TRIES = 3
"""Of all questions, where an executor comes in the middle of them."""


def _check(job: Job, request: ClusterCheckRequest) -> dict[str, Any]:
    del request
    job.log.progress("waiting for workers")
    for _ in range(TRIES):
        found = _asked(job)
        if found.is_whole:
            break
    return {"findings": [each.describe() for each in (*found.findings(), *_store_clock(job.store))]}


def _asked(job: Job) -> ClusterFindings:
    found = ClusterFindings(job.settings())
    found.add("archive", job.survey(StoreReach(job.store, _identity(job.store))))
    for name, url, password in json.loads(os.environ.get(SOURCES_VARIABLE) or "[]"):
        # Each in a survey of its own: the tasks of one have one environment.
        found.add(f"source {name}", job.survey(SourceReach(name, Address(url, password))))
    found.add("", job.survey(None))  # of all, the quickest: it tells of clocks
    return found


def _identity(store: ObjectStore) -> str:
    """Return the archive's id; "" where it cannot be read here, which the command says itself."""
    try:
        return Identity.from_bytes(store.read(IDENTITY_KEY).body, IDENTITY_KEY).id
    except (HoldfastError, StoreError):
        return ""


def _store_clock(store: ObjectStore) -> Iterator[DoctorFinding]:
    begun = time.time()
    try:
        now = store.list(IDENTITY_KEY).now.timestamp()
    except (HoldfastError, StoreError):
        return
    ended = time.time()
    yield clock("clock of the store", now - (begun + ended) / 2, (ended - begun) / 2 + ROUNDING, other="this machine's")


def main(arguments: Sequence[str] | None = None) -> int:
    return run_request(ClusterCheckRequest, _check, arguments, unlocked=True)


if __name__ == "__main__":
    end(main())
