"""Maintenance of a replica leads, starts at the log's head, and asks before files go; elsewhere it needs no store."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.archive.maintenance.vacuum import Permit
from holdfast.replication.log.replicas import ReplicaRow, replicas
from holdfast.replication.work import turn
from holdfast.replication.work.replica import ReplicatedArchive
from holdfast.replication.work.replica_maintenance import opened_for_maintenance, state_to_plan, vacuum_permit
from holdfast.replication.work.replica_vacuum import ReplicaPermit
from holdfast.storage import ObjectStore, open_store
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """An archive at one place, for which no store is named."""
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    store = open_store(str(tmp_path / "alone"))
    Archive.create(store, name="shop")
    return store


def test_an_archive_at_one_place_needs_no_store(alone: ObjectStore) -> None:
    with opened_for_maintenance(alone, check=nothing) as archive:
        assert type(archive) is Archive
    assert state_to_plan(archive).sequence == 0
    with vacuum_permit(alone) as permit:
        assert type(permit) is Permit


@pytest.fixture
def two(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> Replicas:
    """The replicas, whose store the environment names; no pause between two looks."""
    monkeypatch.setattr(turn, "POLL_S", 0.0)
    monkeypatch.setenv("HOLDFAST_STORE", two.coordination.url)
    return two


def test_a_replica_leads_from_the_head_of_its_log(two: Replicas) -> None:
    two.back_up("near")
    with opened_for_maintenance(two.place("far"), check=nothing) as archive:
        assert isinstance(archive, ReplicatedArchive)
        assert archive.leader_epoch == 1
        assert archive.state.log is not None
        assert archive.state.log.index == 1
    assert two.state("far").blocks.keys() == two.state("near").blocks.keys()


def test_a_plan_changes_nothing(two: Replicas) -> None:
    two.back_up("near")
    planned = state_to_plan(Archive.open(two.place("near")), two.coordination.url)
    assert planned.blocks.keys() == two.state("near").blocks.keys()
    before = two.state("far").sequence
    state_to_plan(Archive.open(two.place("far")), two.coordination.url)
    assert two.state("far").sequence == before


def rows(two: Replicas) -> list[ReplicaRow]:
    return two.coordination.run(lambda c: replicas(c, two.archive))


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_vacuum_of_a_replica_asks_its_log_and_is_active_only_where_it_deletes(two: Replicas, dry_run: bool) -> None:
    two.change("near", active_until=0.0)
    with vacuum_permit(two.place("near"), dry_run=dry_run) as permit:
        assert isinstance(permit, ReplicaPermit)
    epochs = {row.name: row.active_until > 0 for row in rows(two)}
    assert epochs["near"] is not dry_run
