"""The trigger that waits for the quorum of a backup."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.common.errors import HoldfastError
from holdfast.replication.log import schema
from holdfast.replication.log.settings import CoordinationAddress, QuorumRequest
from holdfast.replication.log.store import CoordinationStore
from holdfast_airflow.triggers.quorum import QuorumTrigger
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Replicas]:
    """An archive with two replicas, and a backup that waits for its quorum."""
    with CoordinationStore.open(f"sqlite:///{tmp_path}/coordination.db") as coordination:
        replicas = Replicas.begun(tmp_path, coordination, "far")
        archive = replicas.open("near")
        archive.quorum_request = QuorumRequest(2)
        archive.add(replicas.backup(archive.store), check=nothing, fence=None)
        yield replicas


def waits(two: Replicas, *, seconds: float = 60, block: str | None = None) -> QuorumTrigger:
    return QuorumTrigger(
        url=two.place("near").url,
        store=two.coordination.url,
        key=None,
        block=block or two.backups[-1],
        until=(datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(),
    )


def fire(trigger: QuorumTrigger) -> dict[str, Any]:
    async def first() -> Any:
        (event,) = [event async for event in trigger.run()]
        return event

    return dict(asyncio.run(asyncio.wait_for(first(), 30)).payload)


def between(monkeypatch: pytest.MonkeyPatch, *work: Any) -> list[float]:
    """Do something in each pause; returns their lengths, once they were made."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        work[len(pauses)]()
        pauses.append(seconds)

    monkeypatch.setattr("holdfast_airflow.triggers.quorum.asyncio.sleep", pause)
    return pauses


def test_it_fires_when_a_sync_completes_the_quorum(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = between(monkeypatch, lambda: None, lambda: two.sync("far"))
    assert fire(waits(two)) == {"state": "decided", "message": ""}
    assert pauses == [1.0, 1.0]


def test_it_has_a_quorum_fail_whose_deadline_is_over(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    def overdue() -> None:
        two.coordination.run(lambda c: c.execute(schema.quorums.update().values(deadline=1.0)))

    between(monkeypatch, overdue)
    assert fire(waits(two))["state"] == "decided"
    two.sync("near")
    assert two.backups[-1] not in two.state("near").blocks


def test_it_goes_on_where_the_store_does_not_answer_and_gives_up_in_time(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **more: object) -> None:
        raise HoldfastError("no connection")

    monkeypatch.setattr("holdfast.replication.work.replica_backup.pending_quorum", fail)
    pauses = between(monkeypatch, lambda: None, monkeypatch.undo)
    two.sync("far")
    assert fire(waits(two))["state"] == "decided"
    assert len(pauses) == 2
    monkeypatch.setattr("holdfast.replication.work.replica_backup.pending_quorum", fail)
    event = fire(waits(two, seconds=0))
    assert event["state"] == "expired"
    assert "could not be read: no connection. 'holdfast points' shows whether the backup counts" in event["message"]


def test_what_nobody_knows_is_no_reason_to_wait(two: Replicas) -> None:
    event = fire(waits(two, block="other"))
    assert (event["state"], "knows nothing of a quorum for block other" in event["message"]) == ("failed", True)


def test_it_is_made_again_from_what_it_says_of_itself(two: Replicas) -> None:
    trigger = waits(two)
    path, fields = trigger.serialize()
    module, _, name = path.rpartition(".")
    again = getattr(importlib.import_module(module), name)(**fields)
    assert again.serialize() == trigger.serialize()


def test_replicas_of_archives_yaml_are_asked_too(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def ask(*_: object, address: object) -> str:
        asked.append(address)
        return ""

    monkeypatch.setattr("holdfast.replication.work.replica_backup.pending_quorum", ask)
    trigger = waits(two)
    _, fields = trigger.serialize()
    assert fire(QuorumTrigger(**{**fields, "replicas": {"far": "/far"}})) == {"state": "decided", "message": ""}
    del fields["replicas"]  # a task that an earlier release has deferred
    assert fire(QuorumTrigger(**fields))["state"] == "decided"
    assert asked == [CoordinationAddress(two.coordination.url, named) for named in ({"far": "/far"}, {})]
