"""What the coordination store says of an archive's replicas, from one look at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from holdfast.common.errors import HoldfastError
from holdfast.replication.log import leader, log, replicas, schema, source_lease
from holdfast.replication.log.log import Draft, EntryChange
from holdfast.replication.log.replicas import ReplicaRow
from holdfast.replication.log.status import ArchiveStatus, ReplicaStatus, status
from holdfast.replication.log.store import CoordinationStore, clock

Put = Callable[..., None]


def looked(store: CoordinationStore) -> ArchiveStatus:
    (found,) = store.run(lambda c: status(c, "a"))
    return found


def of(store: CoordinationStore, name: str) -> ReplicaStatus:
    return next(each for each in looked(store).replicas if each.row.name == name)


def appended(store: CoordinationStore, size: int, age: float) -> None:
    """Append an entry through `near`, of some size and some seconds ago."""
    head = store.run(lambda c: replicas.log_state(c, "a")).head
    acting = store.run(lambda c: replicas.activate(c, "a", "near"))
    store.run(lambda c: log.append(c, acting, Draft(f"e{head}", EntryChange(kind="mark"), planned_at=head)))
    e, now = schema.entries.c, store.run(clock)
    update = schema.entries.update().where(e.index == head + 1).values(size=size, appended_at=now - age)
    store.run(lambda c: c.execute(update))


def test_a_replica_is_behind_by_what_it_has_still_to_execute(registered: CoordinationStore, put: Put) -> None:
    for size, age in ((100, 500.0), (30, 50.0)):
        appended(registered, size, age)
    put("far", pointer=6, is_lost=False)
    found = of(registered, "far")
    assert (found.entries, found.size, round(found.seconds)) == (1, 30, 50)
    put("far", pointer=5, trimmed_bytes=7)
    found = of(registered, "far")
    assert (found.entries, found.size, round(found.seconds)) == (2, 137, 500)
    put("far", pointer=7)
    found = of(registered, "far")
    assert (found.entries, found.size, found.seconds) == (0, 0, 0)  # of what it lacks, nothing was trimmed


def test_of_entries_that_are_trimmed_the_time_is_that_of_its_last_step(registered: CoordinationStore, put: Put) -> None:
    appended(registered, 30, 50.0)
    registered.run(lambda c: c.execute(schema.archives.update().values(log_start=5)))
    put("far", pointer=2, is_lost=False, trimmed_bytes=1000, synced_at=registered.run(clock) - 900)
    found = of(registered, "far")
    assert (found.entries, found.size, round(found.seconds)) == (4, 1030, 900)


def test_a_silent_one_is_told_with_its_pause(registered: CoordinationStore, put: Put) -> None:
    now = registered.run(clock)
    put("far", silent_since=now - 60, ask_again_at=now + 120)
    found = of(registered, "far").describe()
    assert found["silent_s"] == pytest.approx(60, abs=5)
    assert found["asked_again_s"] == pytest.approx(120, abs=5)
    assert of(registered, "near").describe()["silent_s"] is None


def test_the_leader_sources_and_missing_entries_are_told(registered: CoordinationStore) -> None:
    acting = registered.run(lambda c: replicas.activate(c, "a", "near"))
    assert looked(registered).describe()["leader"] is None
    registered.run(lambda c: leader.lead(c, acting, lease=100.0))
    registered.run(lambda c: source_lease.take_source(c, acting, "shop_db", "run"))
    now = registered.run(clock)
    row = {"archive": "a", "index": 3, "since": now - 30, "seen": now}
    registered.run(lambda c: c.execute(schema.missing.insert(), row))
    told = looked(registered).describe()
    assert (told["leader"], told["leader_epoch"]) == ("near", 1)
    assert told["leader_lease_s"] == pytest.approx(100, abs=5)
    assert [(each["source"], each["run"]) for each in told["sources"]] == [("shop_db", "run")]
    [missing] = told["missing"]
    assert (missing["entry"], missing["for_s"]) == (3, pytest.approx(30, abs=5))


def test_times_are_told_in_tenths_and_moments_in_utc() -> None:
    row = ReplicaRow("near", "/near", 1, 2, 1_772_000_000.0, False, "", "", 0.0)
    told = ReplicaStatus(row, 0, 0, 1.26, 3.34).describe()
    assert (told["seconds_behind"], told["lease_s"], told["active"]) == (1.3, 3.3, True)
    assert told["active_until"].startswith("2026-02-25T06:13:20")
    never = ReplicaStatus(replace(row, active_until=0.0), 0, 0, 0.0, 0.0).describe()
    assert (never["active"], never["active_until"], never["lost_reason"]) == (False, None, None)


def test_all_archives_are_told_unless_one_is_meant(registered: CoordinationStore) -> None:
    assert [each.log.archive for each in registered.run(status)] == ["a"]
    with pytest.raises(HoldfastError):
        registered.run(lambda c: status(c, "b"))
