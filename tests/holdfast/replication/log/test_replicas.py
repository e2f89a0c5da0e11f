"""Replicas in the coordination store: who acts for one, how far it has come, and which of them may go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection

from holdfast.common.errors import RefusedError, UsageError
from holdfast.replication.log import log, replicas, schema
from holdfast.replication.log.errors import EpochOverError, LostReplicaError
from holdfast.replication.log.log import Draft, EntryChange
from holdfast.replication.log.replicas import Acting, LogState, ReplicaRow
from holdfast.replication.log.store import CoordinationStore
from tests.support.replicas.replicated import remove

SHOP = LogState("a", "shop", "s", head=4, start=5)


@pytest.fixture
def store(coordination: CoordinationStore) -> CoordinationStore:
    """An archive with two sources and the replicas `near`, which has all, and `far`, which has nothing yet."""

    def begin(c: Connection) -> None:
        ends, streams = {"crm": "0/500", "shop": "0/900"}, {"shop": "0/800"}
        replicas.register(c, SHOP, name="near", url="/near", ends=ends, streams=streams)
        replicas.add(c, "a", name="far", url="/far")

    coordination.run(begin)
    return coordination


def row(store: CoordinationStore, name: str) -> ReplicaRow:
    return store.run(lambda c: replicas.replica(c, "a", name))


def put(store: CoordinationStore, name: str, **values: object) -> None:
    store.run(lambda c: c.execute(schema.replicas.update().where(schema.replicas.c.name == name).values(**values)))


def has_all(store: CoordinationStore, name: str, pointer: int = 5) -> None:
    put(store, name, pointer=pointer, is_lost=False, lost_reason="")


def names(store: CoordinationStore) -> list[str]:
    return [each.name for each in store.run(lambda c: replicas.replicas(c, "a"))]


def activated(store: CoordinationStore, name: str = "near", lease: float = 900.0) -> Acting:
    return store.run(lambda c: replicas.activate(c, "a", name, lease=lease))


def append(store: CoordinationStore, name: str) -> None:
    """Append an entry that only this replica has executed."""
    acting = activated(store, name)
    draft = Draft(f"e{name}", EntryChange(kind="backup"), planned_at=row(store, name).pointer - 1)
    store.run(lambda c: log.append(c, acting, draft))


def test_the_first_replica_has_all_that_its_archive_has(store: CoordinationStore) -> None:
    near = row(store, "near")
    assert (near.url, near.pointer, near.is_lost, near.recovers_from) == ("/near", 5, False, "")
    assert not near.is_active(near.synced_at)
    assert store.run(lambda c: replicas.log_state(c, "a")) == SHOP
    assert store.run(replicas.log_states) == [SHOP]
    c = schema.sources.c
    found = store.run(
        lambda connection: connection.execute(schema.sources.select().order_by(c.source)).mappings().all()
    )
    assert [(each["source"], each["end_position"], each["stream_end"]) for each in found] == [
        ("crm", "0/500", ""),
        ("shop", "0/900", "0/800"),
    ]


def test_an_archive_has_one_log(store: CoordinationStore) -> None:
    with pytest.raises(UsageError, match="archive shop has replicas in this store already"):
        store.run(lambda c: replicas.register(c, SHOP, name="off", url="/off", ends={}, streams={}))


def test_another_replica_is_lost_until_it_is_recovered(store: CoordinationStore) -> None:
    far = row(store, "far")
    assert (far.pointer, far.is_lost, far.lost_reason) == (0, True, "it is new")
    with pytest.raises(LostReplicaError, match=r"replica far is lost \(it is new\): holdfast replica recover far"):
        activated(store, "far")


def test_adding_a_replica_again_changes_nothing_and_each_has_its_name_and_place(store: CoordinationStore) -> None:
    has_all(store, "far")
    store.run(lambda c: replicas.add(c, "a", name="far", url="/far"))
    assert (names(store), row(store, "far").is_lost) == (["far", "near"], False)
    with pytest.raises(UsageError, match="replica far is at /far: choose another name"):
        store.run(lambda c: replicas.add(c, "a", name="far", url="/off"))
    with pytest.raises(UsageError, match="/far is replica far already"):
        store.run(lambda c: replicas.add(c, "a", name="off", url="/far"))


def test_processes_share_an_epoch_while_the_lease_runs_and_begin_another_once_it_is_over(
    store: CoordinationStore,
) -> None:
    first = activated(store)
    assert activated(store) == first
    assert row(store, "near").is_active(row(store, "near").synced_at)
    put(store, "near", active_until=0.0)
    assert activated(store).epoch == first.epoch + 1


Deed = Callable[[Connection, Acting], Any]

DEEDS: dict[str, Deed] = {
    "guard": replicas.guard,
    "renew": replicas.renew,
    "note_synced": replicas.note_synced,
    "move_pointer": lambda c, acting: replicas.move_pointer(c, acting, index=9),
}


@pytest.mark.parametrize("deed", DEEDS)
def test_whoever_is_of_an_older_epoch_changes_nothing(store: CoordinationStore, deed: str) -> None:
    old = activated(store, lease=-1.0)
    activated(store)
    before = row(store, "near")
    with pytest.raises(EpochOverError, match=r"activated again while this process was away.*nothing was changed"):
        store.run(lambda c: DEEDS[deed](c, old))
    assert row(store, "near") == before


@pytest.mark.parametrize("deed", DEEDS)
def test_nobody_acts_for_a_replica_that_was_lost_meanwhile(store: CoordinationStore, deed: str) -> None:
    acting = activated(store)
    has_all(store, "far")
    store.run(lambda c: replicas.mark_lost(c, "a", "near", "rot"))
    with pytest.raises(LostReplicaError, match=r"replica near is lost \(rot\)"):
        store.run(lambda c: DEEDS[deed](c, acting))


def test_a_row_of_another_epoch_is_not_changed(store: CoordinationStore) -> None:
    acting = activated(store)
    with pytest.raises(EpochOverError, match="changed by another process at the same time"):
        store.run(lambda c: replicas.change_row(c, Acting("a", "near", acting.epoch + 1), pointer=1))


def test_a_lease_is_renewed_from_now_on_and_a_sync_is_noted(store: CoordinationStore) -> None:
    acting = activated(store, lease=1.0)
    put(store, "near", synced_at=0.0)
    store.run(lambda c: replicas.renew(c, acting, lease=500.0))
    renewed = row(store, "near")
    assert renewed.synced_at == 0.0
    store.run(lambda c: replicas.note_synced(c, acting))
    noted = row(store, "near")
    assert noted.synced_at > 0
    assert noted.active_until - noted.synced_at == pytest.approx(replicas.LEASE_S, abs=60)
    assert noted.active_until > renewed.active_until


def test_a_pointer_goes_forward_only(store: CoordinationStore) -> None:
    acting = activated(store)
    store.run(lambda c: replicas.move_pointer(c, acting, index=9))
    assert row(store, "near").pointer == 10
    store.run(lambda c: replicas.move_pointer(c, acting, index=6))
    assert row(store, "near").pointer == 10


def test_the_last_replica_that_is_not_lost_stays(store: CoordinationStore) -> None:
    with pytest.raises(RefusedError, match=r"near has to be recovered .*holdfast replica elect"):
        store.run(lambda c: replicas.mark_lost(c, "a", "near", "rot"))
    with pytest.raises(RefusedError, match="near is the only replica that is not lost: removing it needs --force"):
        store.run(lambda c: remove(c, "a", "near"))
    store.run(lambda c: remove(c, "a", "far"))
    store.run(lambda c: remove(c, "a", "near", force=True))
    assert names(store) == []


def test_whoever_is_ahead_of_all_others_is_not_removed(store: CoordinationStore) -> None:
    has_all(store, "far", pointer=4)
    with pytest.raises(RefusedError, match=r"near has executed entries that no other replica has yet \(up to 4\)"):
        store.run(lambda c: remove(c, "a", "near"))
    has_all(store, "far", pointer=5)
    store.run(lambda c: remove(c, "a", "near"))
    assert names(store) == ["far"]


def test_whoever_has_appended_what_no_other_has_is_not_removed_even_if_it_is_lost(store: CoordinationStore) -> None:
    has_all(store, "far")
    append(store, "near")
    store.run(lambda c: replicas.mark_lost(c, "a", "near", "rot"))
    with pytest.raises(RefusedError, match="what entry 5 adds may be at near only"):
        store.run(lambda c: remove(c, "a", "near"))
    has_all(store, "far", pointer=6)
    store.run(lambda c: remove(c, "a", "near"))
    assert names(store) == ["far"]


def test_whoever_others_are_recovered_from_is_not_removed(store: CoordinationStore) -> None:
    store.run(lambda c: replicas.add(c, "a", name="off", url="/off"))
    has_all(store, "far")
    put(store, "off", recovers_from="far")
    with pytest.raises(RefusedError, match="off is being recovered from far: let that end"):
        store.run(lambda c: remove(c, "a", "far"))


def test_a_new_replica_of_an_old_name_is_not_acted_for_by_who_acted_for_the_old_one(store: CoordinationStore) -> None:
    has_all(store, "far")
    old = activated(store, "far")
    store.run(lambda c: remove(c, "a", "far"))
    store.run(lambda c: replicas.add(c, "a", name="far", url="/far"))
    has_all(store, "far")
    assert row(store, "far").epoch > old.epoch
    with pytest.raises(EpochOverError):
        store.run(lambda c: replicas.guard(c, old))


def test_a_leader_that_is_removed_leads_no_more(store: CoordinationStore) -> None:
    has_all(store, "far")
    c = schema.archives.c
    store.run(lambda connection: connection.execute(schema.archives.update().values(leader="near", leader_until=1e12)))
    store.run(lambda connection: remove(connection, "a", "near"))
    found = store.run(lambda connection: connection.execute(schema.archives.select()).mappings().one())
    assert (found[c.leader.name], found[c.leader_until.name]) == ("", 0.0)


def test_a_replica_keeps_the_reason_for_which_it_was_lost_first(store: CoordinationStore) -> None:
    store.run(lambda c: replicas.mark_lost(c, "a", "far", "rot"))
    assert row(store, "far").lost_reason == "it is new"
