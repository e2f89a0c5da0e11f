"""A vacuum of one replica deletes nothing that another one may still fetch from it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.archive.maintenance.retention import parse_rules
from holdfast.archive.maintenance.truncation import truncate
from holdfast.archive.maintenance.vacuum import Vacuumed, vacuum
from holdfast.common.errors import OutcomeUnknownError, RefusedError, UsageError
from holdfast.replication.log import schema
from holdfast.replication.log.errors import EpochOverError, LostReplicaError, OldStoreError
from holdfast.replication.log.recovery_claim import claim, give_up
from holdfast.replication.log.replicas import mark_lost, replica, take_lease
from holdfast.replication.log.store import ENVIRONMENT, CoordinationStore
from holdfast.replication.work.leading import leading
from holdfast.replication.work.membership import begin_membership
from holdfast.replication.work.replica_maintenance import vacuum_permit
from holdfast.replication.work.replica_vacuum import ReplicaPermit
from tests.support.replicas.replicated import Replicas, made_backup, nothing

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def environment(coordination: CoordinationStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, coordination.url)


def vacuumed(replicas: Replicas, name: str, *, dry_run: bool = False) -> Vacuumed:
    """Vacuum a replica without any grace."""
    store = replicas.place(name)
    with vacuum_permit(store, dry_run=dry_run) as permit:
        return vacuum(
            Archive.open(store), check=nothing, fence=None, grace=timedelta(0), dry_run=dry_run, permit=permit
        )


def truncated(replicas: Replicas, name: str) -> None:
    """Remove all but the newest backup."""
    with leading(replicas.open(name)) as archive:
        truncate(archive, parse_rules(["last=1"]), check=nothing, fence=None)


def files(replicas: Replicas, name: str, *blocks: str) -> dict[str, bytes]:
    """Return the files at a replica's place that are in folders of blocks."""
    place = replicas.folder / name
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in (place / "data").rglob("*")
        if path.is_file() and any(block in path.parts for block in blocks)
    }


def orphan(replicas: Replicas, name: str) -> str:
    """Leave files at a replica's place as a killed backup does; return the id of their block."""
    return made_backup(replicas.place(name), "shop_db")[0]


def abandoned(replicas: Replicas) -> Collection[str]:
    return replicas.coordination.run(lambda c: set(c.execute(schema.abandoned.select()).columns("block").scalars()))


def test_a_replica_that_is_behind_fetches_a_removed_block_first(two: Replicas) -> None:
    for _ in range(3):
        two.back_up("near")
    truncated(two, "near")
    removed = two.backups[:-1]
    there = files(two, "near", *removed)
    for _ in range(2):
        done = vacuumed(two, "near")
        assert done.awaited == dict.fromkeys(removed, ("far",))
        assert (done.files, done.blocks) == (0, [])
        two.sync("far", upto=3)  # all but the truncation itself
        assert files(two, "far", *removed) == there
        assert two.is_whole("far")
    two.sync("far")
    for name in ("far", "near"):
        done = vacuumed(two, name)
        assert (sorted(done.blocks), done.awaited) == (sorted(removed), {})
        assert files(two, name, *removed) == {}
        assert two.is_whole(name)
        assert two.state(name).removed == {}


def test_a_replica_that_was_brought_back_behind_its_own_removals_keeps_what_it_adds_again(two: Replicas) -> None:
    for _ in range(2):
        two.back_up("near")
    again = two.backups[-2]
    truncated(two, "near")
    two.coordination.run(lambda c: mark_lost(c, two.archive, "near", "its files are damaged"))
    two.recover("near", source="far")
    two.sync("far")
    there = files(two, "near", again)
    assert vacuumed(two, "near").awaited[again] == ("near",)  # it waits for itself, too
    two.sync("near", upto=1)
    assert (vacuumed(two, "near").blocks, files(two, "near", again)) == ([], there)
    assert two.is_whole("near")
    two.sync("near")
    for name in ("near", "far"):
        assert again in vacuumed(two, name).blocks
        assert files(two, name, again) == {}
        assert two.is_whole(name)


def test_the_pointer_of_a_replica_that_is_being_recovered_counts(two: Replicas) -> None:
    two.back_up("near")
    two.lose("far")
    recovery, _ = two.coordination.run(lambda c: claim(c, two.archive, "far"))
    truncated(two, "near")
    assert vacuumed(two, "near").awaited == {two.backups[0]: ("far",)}
    two.coordination.run(lambda c: give_up(c, recovery))
    assert vacuumed(two, "near").blocks == [two.backups[0]]  # whoever begins anew copies what is here then
    two.recover("far")
    assert two.state("far").blocks.keys() == two.state("near").blocks.keys() == {two.backups[1]}


def test_what_was_removed_before_there_was_a_log_goes_at_once(tmp_path: Path, coordination: CoordinationStore) -> None:
    replicas = Replicas(tmp_path, coordination)
    archive = Archive.create(replicas.place("near"), name="shop")
    replicas.archive = archive.identity.id
    for _ in range(2):
        archive.add(replicas.backup(archive.store), check=nothing, fence=None)
    truncate(archive, parse_rules(["last=1"]), check=nothing, fence=None)
    begin_membership(coordination, archive.store, "near")
    replicas.add("far")
    assert vacuumed(replicas, "near").blocks == [replicas.backups[0]]


def test_what_a_killed_backup_left_is_abandoned_in_the_store_and_then_goes(two: Replicas) -> None:
    left = orphan(two, "near")
    done = vacuumed(two, "near")
    assert done.abandoned == [left]
    assert (files(two, "near", left), abandoned(two)) == ({}, {left})
    assert two.state("near").abandoned == {left}
    far = two.open("far")
    _, plan = made_backup(far.store, "shop_db", identity=left)
    with pytest.raises(RefusedError, match=f"block {left} was abandoned by a vacuum of replica near"):
        far.add(plan, check=nothing, fence=None)
    vacuumed(two, "near")
    assert abandoned(two) == {left}


def test_blocks_are_abandoned_in_the_store_before_the_archive_says_so(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = orphan(two, "near")

    def unsaid(*given: object, **more: object) -> None:
        assert abandoned(two) == {left}
        raise OutcomeUnknownError("the store never told")

    with monkeypatch.context() as patched:
        patched.setattr(Archive, "add", unsaid)
        with pytest.raises(OutcomeUnknownError):
            vacuumed(two, "near")
    assert files(two, "near", left) != {}
    assert vacuumed(two, "near").abandoned == [left]  # the next one goes on with what that one began
    assert files(two, "near", left) == {}


def test_files_of_an_entry_that_is_still_to_be_executed_are_no_leftovers(two: Replicas) -> None:
    two.back_up("near")
    for path, body in files(two, "near", two.backups[-1]).items():  # fetched by a sync that goes on, or was killed
        (two.folder / "far" / path).parent.mkdir(parents=True, exist_ok=True)
        (two.folder / "far" / path).write_bytes(body)
    for dry_run in (True, False):
        done = vacuumed(two, "far", dry_run=dry_run)
        assert (done.young, done.abandoned, done.files) == ([two.backups[-1]], [], 0)
    assert abandoned(two) == set()
    assert two.sync("far").files == 0
    assert two.is_whole("far")


def test_an_append_that_comes_before_keeps_its_block_from_being_abandoned(two: Replicas) -> None:
    near = two.open("near")
    block, plan = made_backup(near.store, "shop_db")
    store = two.place("near")
    with vacuum_permit(store) as permit:
        assert set(permit.unnamed([block])) == {block}
        near.add(plan, check=nothing, fence=None)
        assert set(permit.abandon([block])) == set()


def test_a_dry_run_changes_nothing_in_the_store_either(two: Replicas) -> None:
    two.back_up("near")
    truncated(two, "near")
    left = orphan(two, "near")
    two.change("near", active_until=0.0)
    before = two.coordination.run(lambda c: replica(c, two.archive, "near"))
    done = vacuumed(two, "near", dry_run=True)
    assert (done.abandoned, done.awaited) == ([left], {two.backups[0]: ("far",)})
    assert abandoned(two) == set()
    assert two.coordination.run(lambda c: replica(c, two.archive, "near")) == before


def test_nothing_goes_where_the_store_is_not_known_or_tells_something_else(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.back_up("near")
    truncated(two, "near")
    two.sync("far")
    before = files(two, "near", *two.backups)
    with pytest.raises(UsageError, match="what may go of it is known by the coordination store"):
        vacuum(Archive.open(two.place("near")), check=nothing, fence=None, grace=timedelta(0))
    monkeypatch.delenv(ENVIRONMENT)
    with pytest.raises(UsageError, match="say where the coordination store is"):
        vacuumed(two, "near")
    monkeypatch.setenv(ENVIRONMENT, two.coordination.url)
    two.coordination.run(lambda c: c.execute(schema.archives.update().values(head=0)))
    with pytest.raises(OldStoreError, match="brought back from an older copy"):
        vacuumed(two, "near")
    two.coordination.run(lambda c: c.execute(schema.archives.update().values(head=2)))
    two.lose("near")
    with pytest.raises(LostReplicaError, match="near is lost"):
        vacuumed(two, "near")
    assert files(two, "near", *two.backups) == before


def test_whoever_acts_for_the_replica_no_more_deletes_and_abandons_nothing(two: Replicas) -> None:
    two.back_up("near")
    truncated(two, "near")
    two.sync("far")
    near = two.open("near")
    permit = ReplicaPermit(*near.in_use()[:1], two.archive, near.in_use()[1])
    two.change("near", active_until=0.0)
    two.coordination.run(lambda c: take_lease(c, two.archive, replica(c, two.archive, "near"), 10.0))
    archive = Archive.open(two.place("near"))
    with pytest.raises(EpochOverError, match="activated again"):
        vacuum(archive, check=nothing, fence=None, grace=timedelta(0), orphans=False, permit=permit)
    with pytest.raises(EpochOverError, match="activated again"):
        permit.abandon(["a"])
    assert files(two, "near", two.backups[0]) != {}
    assert abandoned(two) == set()
