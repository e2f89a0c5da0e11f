"""Real processes on real stores."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.support.versitygw import running_versitygw
from holdfast.storage import ObjectStore, open_store
from locking import LeaseHandle, LockBusy, LockLost, RWLock, attach, inspect, reaper
from tests.support.stores.azurite import running_azurite

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def on_s3() -> Iterator[tuple[str, dict[str, str]]]:
    with running_versitygw() as server:
        server.make_bucket("locks-test")
        yield "s3://locks-test/archive", server.environment


@contextmanager
def on_azure() -> Iterator[tuple[str, dict[str, str]]]:
    with running_azurite() as server:
        server.make_container("locks-test")
        yield "az://locks-test/archive", server.environment


S3 = pytest.param(on_s3, marks=pytest.mark.service)
AZURE = pytest.param(on_azure, marks=[pytest.mark.service, pytest.mark.exhaustive])


@pytest.fixture(params=["folder", S3, AZURE])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    if request.param == "folder":
        yield open_store(str(tmp_path / "archive"))
        return
    with request.param() as (url, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield open_store(url)


# What waits for leases takes seconds, and the store has no part in it but its clock.
in_a_folder = pytest.mark.parametrize(
    "store", ["folder", pytest.param(on_s3, marks=[pytest.mark.service, pytest.mark.exhaustive])], indirect=True
)


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.locks.lock_processes", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@contextmanager
def holder(store: ObjectStore, lease: float) -> Iterator[tuple[subprocess.Popen[str], LeaseHandle]]:
    """Another process that holds the write lock of "r" and renews it."""
    process = start("hold", store.url, str(lease))
    try:
        assert process.stdout is not None
        yield process, LeaseHandle.from_json(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_no_addition_is_lost_between_processes(store: ObjectStore, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    processes, times = (8, 20) if os.path.isdir(store.url) else (4, 10)  # noqa: PTH112 - a URL or a folder
    running = [start("increment", store.url, str(counter), str(times)) for _ in range(processes)]
    assert [process.communicate(timeout=120) and process.returncode for process in running] == [0] * processes
    assert counter.read_text() == str(processes * times)
    assert inspect(store) == []


def test_a_holder_that_was_killed_frees_its_lock_on_its_own_host_at_once(store: ObjectStore) -> None:
    with holder(store, lease=60) as (process, handle):
        with pytest.raises(LockBusy, match="dying"):
            RWLock(store, "r").read(wait=0)
        attach(store, handle).check()
        process.send_signal(signal.SIGKILL)
        process.wait()
        with RWLock(store, "r").write(wait=10) as lease:
            lease.check()
            with pytest.raises(LockLost):
                attach(store, handle).check()


@pytest.mark.slow
@in_a_folder
def test_a_holder_that_was_killed_on_another_host_keeps_its_lock_until_the_lease_is_over(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper, "process_is_gone", lambda owner: False)
    with holder(store, lease=1) as (process, _):
        time.sleep(2.5)  # longer than lease and grace: it lives by its renewals
        with pytest.raises(LockBusy):
            RWLock(store, "r").write(wait=0)
        process.send_signal(signal.SIGKILL)
        process.wait()
        with pytest.raises(LockBusy):
            RWLock(store, "r").write(wait=0)
        with RWLock(store, "r").write(wait=20) as lease:
            lease.check()


@pytest.mark.slow
@in_a_folder
def test_a_holder_that_was_suspended_past_its_lease_finds_it_lost(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper, "process_is_gone", lambda owner: False)
    with holder(store, lease=1) as (process, handle):
        process.send_signal(signal.SIGSTOP)
        with RWLock(store, "r").write(wait=20) as lease:
            process.send_signal(signal.SIGCONT)
            lease.check()
            with pytest.raises(LockLost):
                attach(store, handle).check()
