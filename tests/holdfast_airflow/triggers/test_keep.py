"""The trigger that keeps a lock of a run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.storage import ObjectStore
from holdfast.storage.folder import FolderStore
from holdfast_airflow.triggers import keep
from holdfast_airflow.triggers.keep import KeepLockTrigger
from locking import AttachedLease, Lease, LeaseHandle, Owner, RWLock, end, inspect, release_handle
from locking.store import StoreDenied, StoreUnavailable

Step = Callable[[], None]

BEGIN = 1000.0


@pytest.fixture
def lease(store: ObjectStore) -> Lease:
    return RWLock(store, "report", owner=Owner(scope="run"), lease=90.0).write(wait=0, renew=False)


@pytest.fixture
def time_passes(store: ObjectStore, lease: Lease, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    """Let each pause of the trigger last as long as it says, and something happen in it; the lock grows older, too."""

    def steps(*happenings: Step | None) -> list[float]:
        path = Path(store.url) / f"locks/report/WRIT.{lease.txn}"
        left = list(happenings)
        ages: list[float] = []
        now = [BEGIN]

        async def pause(seconds: float) -> None:
            now[0] += seconds
            if path.exists():
                before = path.stat().st_mtime
                os.utime(path, (before - seconds,) * 2)
                ages.append(path.stat().st_ctime - path.stat().st_mtime)
            if step := left.pop(0):
                step()

        monkeypatch.setattr("holdfast_airflow.triggers.keep.asyncio.sleep", pause)
        monkeypatch.setattr(keep, "time", SimpleNamespace(monotonic=lambda: now[0]))
        since = datetime.now(UTC)
        monkeypatch.setattr(AttachedLease, "_since", lambda self, body: since - timedelta(seconds=now[0] - BEGIN))
        return ages

    return steps


def fire(store: ObjectStore, lease: Lease, **more: Any) -> dict[str, Any]:
    """Run the trigger to its one event."""
    trigger = KeepLockTrigger(url=store.url, handle=lease.handle().to_json(), **{"max_hold_s": 3600.0, **more})

    async def first() -> Any:
        events = [event async for event in trigger.run()]
        assert len(events) == 1
        return events[0]

    return dict(asyncio.run(asyncio.wait_for(first(), 30)).payload)


def test_lock_is_renewed_in_time_until_it_is_given_back(
    store: ObjectStore, lease: Lease, time_passes: Callable[..., list[float]]
) -> None:
    ages = time_passes(*[None] * 60, lambda: release_handle(store, lease.handle()))
    assert fire(store, lease) == {"state": "released"}
    assert sum(after < before for before, after in pairwise(ages)) >= 10
    # It is renewed at the first look after a third of its lease.
    assert 30 <= max(ages) < 41


def test_lock_that_somebody_ended_is_lost(
    store: ObjectStore, lease: Lease, time_passes: Callable[..., list[float]]
) -> None:
    time_passes(None, lambda: (end(store, "report", lease.txn, reason="a person did it"), None)[1])
    event = fire(store, lease)
    assert event["state"] == "lost"
    assert "Another client ended the lock of report" in event["message"]


def test_lock_that_was_not_renewed_for_a_lease_is_lost(
    store: ObjectStore, lease: Lease, time_passes: Callable[..., list[float]]
) -> None:
    path = Path(store.url) / f"locks/report/WRIT.{lease.txn}"
    time_passes(lambda: os.utime(path, (path.stat().st_mtime - 89.5,) * 2))
    event = fire(store, lease)
    assert event["state"] == "lost"
    assert "not renewed in time" in event["message"]


@pytest.mark.parametrize("max_hold_s", [90, 100, 120, 200, 300, 365])
def test_lock_ends_at_its_max_hold_and_not_a_lease_later(
    store: ObjectStore, lease: Lease, time_passes: Callable[..., list[float]], max_hold_s: float
) -> None:
    ages = time_passes(*[None] * 100)
    assert fire(store, lease, max_hold_s=max_hold_s) == {"state": "too long"}
    seconds = cast("Any", keep).time.monotonic() - BEGIN
    end = seconds - ages[-1] + 90  # a lease after the last renewal
    assert max_hold_s - 11 <= end <= max_hold_s + 0.1


def test_store_that_does_not_answer_is_asked_again(
    store: ObjectStore, lease: Lease, time_passes: Callable[..., list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: FolderStore, key: str, body: bytes) -> None:
        raise StoreUnavailable("later")

    def recover() -> None:
        monkeypatch.undo()
        time_passes(lambda: release_handle(store, lease.handle()))

    monkeypatch.setattr(FolderStore, "touch", fail)
    ages = time_passes(None, None, recover)
    assert fire(store, lease) == {"state": "released"}
    assert [round(age) for age in ages] == [1, 2, 3]


def test_store_that_refuses_ends_the_trigger(
    store: ObjectStore, lease: Lease, time_passes: Callable[..., list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: FolderStore, prefix: str, *, start_after: str = "", most: int | None = None) -> None:
        raise StoreDenied("403: check the keys")

    monkeypatch.setattr(FolderStore, "list", refuse)
    assert fire(store, lease) == {"state": "failed", "message": "403: check the keys"}


def test_trigger_is_made_again_from_what_it_serialises(store: ObjectStore, lease: Lease) -> None:
    trigger = KeepLockTrigger(url=store.url, handle=lease.handle().to_json(), max_hold_s=60.0)
    path, fields = trigger.serialize()
    assert path == "holdfast_airflow.triggers.keep.KeepLockTrigger"
    assert KeepLockTrigger(**fields).serialize() == (path, fields)
    assert LeaseHandle.from_json(fields["handle"]).txn == lease.txn


def test_lock_of_a_run_in_which_nothing_is_at_work_for_long_is_handed_back_renewed(
    store: ObjectStore, lease: Lease, time_passes: Callable[..., list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = [0.0, 30.0, 60.0, 0.0, 599.0, 600.0]
    monkeypatch.setattr("holdfast_airflow.triggers.keep.RunIdleness.look", lambda self: looks.pop(0))
    ages = time_passes(*[None] * 60)
    assert fire(store, lease, max_idle_s=600.0) == {"state": "idle"}
    assert (looks, max(ages) < 41) == ([], True)
    assert [info.state for info in inspect(store)] == ["held"]


def test_trigger_of_an_earlier_release_does_not_ask_what_is_at_work(store: ObjectStore, lease: Lease) -> None:
    _, fields = KeepLockTrigger(url=store.url, handle=lease.handle().to_json(), max_hold_s=60.0).serialize()
    del fields["max_idle_s"], fields["dag_id"], fields["run_id"], fields["keepers"]
    assert KeepLockTrigger(**fields).max_idle_s is None
