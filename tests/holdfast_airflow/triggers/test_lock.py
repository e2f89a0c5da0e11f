"""The triggers that wait for locks."""

from __future__ import annotations

import asyncio
import importlib
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.common.errors import UsageError
from holdfast.storage import ObjectStore
from holdfast_airflow.triggers.lock import LockFreeTrigger, PlanFreeTrigger, ResourceFreeTrigger
from locking import RWLock
from locking.store import StoreDenied, StoreUnavailable


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def fire(trigger: LockFreeTrigger) -> dict[str, Any]:
    """Run a trigger to its one event."""

    async def first() -> Any:
        events = [event async for event in trigger.run()]
        assert len(events) == 1
        return events[0]

    return dict(asyncio.run(asyncio.wait_for(first(), 30)).payload)


def backup_trigger(store: ObjectStore, *, seconds: float = 20, **more: Any) -> PlanFreeTrigger:
    return PlanFreeTrigger(
        url=store.url, deadline=in_seconds(seconds), operation="backup", sources=["shop_db"], poll_s=0.01, **more
    )


def resource_trigger(store: ObjectStore, mode: str, *, seconds: float = 20) -> ResourceFreeTrigger:
    return ResourceFreeTrigger(url=store.url, deadline=in_seconds(seconds), resource="report", mode=mode, poll_s=0.01)


def test_free_lock_fires_at_once(store: ObjectStore) -> None:
    assert fire(backup_trigger(store)) == {"state": "free", "message": ""}


def test_trigger_fires_when_the_lock_is_released(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = RWLock(store, "ingest-shop_db").write()
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            lease.release()

    monkeypatch.setattr("holdfast_airflow.triggers.lock.asyncio.sleep", pause)
    assert fire(backup_trigger(store))["state"] == "free"
    assert len(pauses) == 3
    assert all(0.005 <= pause <= 0.015 for pause in pauses)


def test_time_that_is_up_names_who_is_in_the_way(store: ObjectStore) -> None:
    with RWLock(store, "ingest-shop_db").write(purpose="the other backup"):
        event = fire(backup_trigger(store, seconds=0))
    assert event["state"] == "expired"
    assert "ingest-shop_db" in event["message"]
    assert "the other backup" in event["message"]


@pytest.mark.parametrize(
    ("held", "wanted", "state"),
    [("R", "R", "free"), ("R", "W", "expired")],
)
def test_readers_share_a_resource_and_writers_do_not(store: ObjectStore, held: str, wanted: str, state: str) -> None:
    lock = RWLock(store, "report")
    with lock.read() if held == "R" else lock.write():
        assert fire(resource_trigger(store, wanted, seconds=0))["state"] == state


def test_trigger_is_made_again_from_what_it_serialises(store: ObjectStore) -> None:
    for trigger in (backup_trigger(store), resource_trigger(store, "W")):
        path, fields = trigger.serialize()
        module, _, name = path.rpartition(".")
        again = getattr(importlib.import_module(module), name)(**fields)
        assert type(again) is type(trigger)
        assert again.serialize() == (path, fields)


def test_store_that_cannot_be_reached_is_asked_again(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Exception | list[Any]] = [StoreUnavailable("503"), StoreUnavailable("503"), []]

    def answer(*_: Any) -> list[Any]:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(PlanFreeTrigger, "blockers", answer)
    assert fire(backup_trigger(store))["state"] == "free"
    assert answers == []


def test_store_that_stays_away_ends_the_wait_with_the_reason(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> list[Any]:
        raise StoreUnavailable("503 from the store")

    monkeypatch.setattr(PlanFreeTrigger, "blockers", fail)
    event = fire(backup_trigger(store, seconds=0))
    assert event == {"state": "expired", "message": "the archive's locks could not be read: 503 from the store"}


@pytest.mark.parametrize("error", [StoreDenied("403: check the keys"), UsageError("ftp://x is no store")])
def test_what_will_not_pass_ends_the_wait_at_once(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: Any) -> list[Any]:
        raise error

    monkeypatch.setattr(PlanFreeTrigger, "blockers", fail)
    assert fire(backup_trigger(store)) == {"state": "failed", "message": str(error)}


def test_a_wait_is_logged_when_its_holder_changes_and_else_now_and_then(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(by: str, seconds: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(txn=by, describe=lambda: f"{by} holds it, {seconds} s")]

    looks = iter([held("a", 1), held("a", 2), held("b", 1), []])
    said: list[str] = []
    monkeypatch.setattr(PlanFreeTrigger, "blockers", lambda *_: next(looks))
    log = SimpleNamespace(info=lambda words, *values: said.append(words % values))
    monkeypatch.setattr(PlanFreeTrigger, "log", log)
    assert fire(backup_trigger(store))["state"] == "free"
    assert said == ["waiting: a holds it, 1 s", "waiting: b holds it, 1 s"]
