"""Lock records as earlier releases wrote them, kept as bytes: a lock may be older than the release that meets it.

For a new version, run the release that first writes it and keep what it wrote beside these; never change one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from locking import LockBusy, LockLost, Owner, Runtime, RWLock, inspect
from locking.names import WORDS, Mode
from locking.record import VERSION, LockRecord, decode_marker, decode_record, encode_record
from locking.terms import Terms
from tests.support.locks.lockstore import MemoryStore

FIXTURES = Path(__file__).parents[2] / "fixtures" / "locks"
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
PROCESS = Owner(
    user="airflow",
    host="worker-1",
    boot_id="3f1c2b9e-0000-4000-8000-000000000001",
    pid_namespace="pid:[4026531836]",
    pid=4711,
    process_start=123456,
)


def record(number: int, mode: Mode, resource: str, owner: Owner, terms: Terms, purpose: str = "") -> LockRecord:
    return LockRecord(
        version=1,
        txn=f"{number:032x}",
        mode=mode,
        resource=resource,
        owner=owner,
        purpose=purpose,
        since=SINCE,
        terms=terms,
    )


TASK = replace(
    PROCESS,
    scope="task",
    dag_id="backup_shop",
    run_id="scheduled__2026-01-01T00:00:00+00:00",
    task_id="copy",
    map_index=3,
)
RUN = replace(PROCESS, scope="run", dag_id="nightly", run_id="manual_1", user="ann")
WRITTEN = {
    "record-1-write.json": record(1, "W", "ingest-shop", TASK, Terms(120, 60), "backup of shop – größer"),  # noqa: RUF001
    "record-1-read.json": record(2, "R", "history", PROCESS, Terms(300, 90), "restore"),
    "record-1-run.json": record(3, "W", "maintenance", RUN, Terms(21600, 60)),
    "record-1-intent.json": record(4, "W", "format", PROCESS, Terms(120, 60)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_record_of_an_earlier_release_says_what_it_said(name: str) -> None:
    told = WRITTEN[name]
    body = (FIXTURES / name).read_bytes()
    assert decode_record(body, resource=told.resource, mode=told.mode, txn=told.txn) == told


@pytest.mark.parametrize("name", WRITTEN)
def test_this_release_writes_what_the_first_of_its_version_wrote(name: str) -> None:
    """Were it not so, new bytes would be wanted beside these, and perhaps a new version."""
    if WRITTEN[name].version == VERSION:
        assert encode_record(WRITTEN[name]) == (FIXTURES / name).read_bytes()


def test_a_marker_of_an_earlier_release_says_what_it_said() -> None:
    marker = decode_marker((FIXTURES / "record-1-dead.json").read_bytes())
    assert (marker.version, marker.txn, marker.reason) == (1, f"{1:032x}", "its host burnt")
    assert (marker.terms, marker.by) == (Terms(120, 60), PROCESS)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_lock_of_an_earlier_release_is_honoured_for_its_lease_and_grace(store: MemoryStore, name: str) -> None:
    told, runtime = WRITTEN[name], Runtime(clock=store.time)
    intent = "INTENT." if "intent" in name else ""
    store.place(f"locks/{told.resource}/{intent}{WORDS[told.mode]}.{told.txn}", (FIXTURES / name).read_bytes())
    (info,) = inspect(store, runtime=runtime)
    assert (info.owner, info.state) == (told.owner, "intent" if intent else "held")
    store.time.sleep(told.terms.attempt_expiry if intent else told.terms.expiry)
    lock = RWLock(store, told.resource, runtime=runtime)
    with pytest.raises(LockBusy, match="worker-1"):
        lock.write(wait=0, renew=False)
    store.time.sleep(1)
    lock.write(wait=0, renew=False).check()


def test_a_marker_of_an_earlier_release_ends_its_transaction(store: MemoryStore, runtime: Runtime) -> None:
    lease = RWLock(store, "r", runtime=runtime).write(wait=0, renew=False)
    store.place(f"locks/r/DEAD.{lease.txn}", (FIXTURES / "record-1-dead.json").read_bytes())
    with pytest.raises(LockLost):
        lease.check()
    RWLock(store, "r", runtime=runtime).write(wait=0, renew=False).check()


def test_there_are_bytes_of_every_version() -> None:
    kinds = ("write", "read", "run", "intent", "dead")
    wanted = {f"record-{version}-{kind}.json" for version in range(1, VERSION + 1) for kind in kinds}
    assert wanted <= {path.name for path in FIXTURES.iterdir()}
