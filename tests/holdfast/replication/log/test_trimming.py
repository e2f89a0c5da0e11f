"""The log keeps what somebody needs, and no more."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection

from holdfast.common.errors import RefusedError, UsageError
from holdfast.replication.log import log, replicas, schema, trimming
from holdfast.replication.log.log import Draft, EntryChange
from holdfast.replication.log.replicas import Acting, LogState
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.log.trimming import Trimmed, trim


@pytest.fixture
def store(coordination: CoordinationStore) -> CoordinationStore:
    """A log of 20 entries, which `near` has executed up to 20, `far` to 15 and `off`, which is away, to 5."""

    def begin(c: Connection) -> None:
        replicas.register(c, LogState("a", "shop", "s", 0, 1), name="near", url="near", ends={}, streams={})
        for name in ("far", "off"):
            replicas.add(c, "a", name=name, url=name)
        acting = replicas.activate(c, "a", "near")
        for number in range(20):
            log.append(c, acting, Draft(f"e{number}", EntryChange(kind="backup"), planned_at=0))
        for name, pointer, until in (("near", 21, 1e12), ("far", 16, 1e12), ("off", 6, 0.0)):
            put(c, name, pointer=pointer, active_until=until, is_lost=False, lost_reason="")

    coordination.run(begin)
    return coordination


def put(connection: Connection, name: str, **values: object) -> None:
    connection.execute(schema.replicas.update().where(schema.replicas.c.name == name).values(**values))


def kept(store: CoordinationStore) -> list[int]:
    return [entry.index for entry in store.run(lambda c: log.entries(c, "a", 1))]


def test_what_who_is_active_has_executed_goes_and_who_was_away_too_long_is_lost(store: CoordinationStore) -> None:
    assert trim(store, "a", min_keep=0, max_keep=10) == Trimmed(16, 15, ("off",), ("far",))
    assert kept(store) == [16, 17, 18, 19, 20]
    off = store.run(lambda c: replicas.replica(c, "a", "off"))
    assert (off.is_lost, off.lost_reason) == (True, "it was away, and needs entry 6, which was trimmed")
    assert trim(store, "a", min_keep=0, max_keep=10) == Trimmed(16, 0, (), ("far",))


def test_who_is_away_is_waited_for_up_to_max_keep(store: CoordinationStore) -> None:
    assert trim(store, "a", min_keep=0, max_keep=15) == Trimmed(6, 5, (), ("off",))
    assert kept(store)[0] == 6


def test_the_newest_entries_stay_whoever_has_executed_them(store: CoordinationStore) -> None:
    store.run(lambda c: put(c, "far", pointer=21))
    assert trim(store, "a", min_keep=8, max_keep=8).start == 13
    assert kept(store) == list(range(13, 21))


def test_one_that_is_being_recovered_holds_trimming_back(store: CoordinationStore) -> None:
    store.run(lambda c: put(c, "off", is_lost=True, recovers_from="near", active_until=1e12, pointer=12))
    assert trim(store, "a", min_keep=0, max_keep=0) == Trimmed(12, 11, (), ("off",))


def test_a_recovery_that_has_died_is_waited_for_up_to_max_keep_and_then_to_be_begun_anew(
    store: CoordinationStore,
) -> None:
    store.run(lambda c: put(c, "off", is_lost=True, lost_reason="rot", recovers_from="near", pointer=12))
    assert trim(store, "a", min_keep=0, max_keep=9).start == 12
    assert trim(store, "a", min_keep=0, max_keep=5) == Trimmed(16, 4, ("off",), ("far",))
    off = store.run(lambda c: replicas.replica(c, "a", "off"))
    assert (off.is_lost, off.lost_reason, off.recovers_from) == (True, "rot", "")


def test_many_are_not_lost_to_win_a_few_entries(store: CoordinationStore) -> None:
    def late(c: Connection) -> None:
        for number in range(17):
            replicas.add(c, "a", name=f"late-{number:02}", url=str(number))
            put(c, f"late-{number:02}", pointer=14 + number % 2, active_until=0.0, is_lost=False, lost_reason="")

    store.run(late)
    spared = tuple(f"late-{number:02}" for number in range(17))
    # The log holds 20 entries: each of the 17 is overdue, as `off` is, and would win 1 or 2 of them; `off` wins 10.
    store.run(lambda c: c.execute(schema.archives.update().values(head=60)))
    done = trim(store, "a", min_keep=0, max_keep=30)
    assert (done.start, done.lost, done.spared) == (14, ("off",), spared)
    assert trim(store, "a", min_keep=0, max_keep=19).lost == spared


def test_a_lost_replica_is_not_waited_for(store: CoordinationStore) -> None:
    store.run(lambda c: put(c, "off", is_lost=True))
    assert trim(store, "a", min_keep=0, max_keep=100).start == 16


def test_never_all_replicas_are_lost(store: CoordinationStore) -> None:
    store.run(lambda c: put(c, "near", active_until=0.0, pointer=10))
    store.run(lambda c: put(c, "far", active_until=0.0))
    with pytest.raises(RefusedError, match=r"would lose every replica \(far, near, off\)"):
        trim(store, "a", min_keep=0, max_keep=0)
    assert kept(store) == list(range(1, 21))
    assert not any(row.is_lost for row in store.run(lambda c: replicas.replicas(c, "a")))


def test_a_dry_run_says_the_same_and_changes_nothing(store: CoordinationStore) -> None:
    assert trim(store, "a", min_keep=0, max_keep=10, dry_run=True) == Trimmed(16, 15, ("off",), ("far",))
    assert kept(store) == list(range(1, 21))
    assert not store.run(lambda c: replicas.replica(c, "a", "off")).is_lost


def test_entries_go_in_pieces_that_let_others_in_between(
    store: CoordinationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[int] = []
    delete = trimming.delete_some

    def watched(c: Connection, archive: str, first: int, upto: int) -> None:
        delete(c, archive, first, upto)
        ends.append(len(log.entries(c, archive, 1)))

    monkeypatch.setattr(trimming, "delete_some", watched)
    monkeypatch.setattr(trimming, "BATCH", 4)
    trim(store, "a", min_keep=0, max_keep=10)
    assert ends == [16, 12, 8, 5]


def test_what_a_killed_trimming_left_goes_with_the_next(store: CoordinationStore) -> None:
    store.run(lambda c: trimming.move_start(c, "a", 0, 10))
    assert kept(store)[0] == 1
    trim(store, "a", min_keep=0, max_keep=10)
    assert kept(store)[0] == 16


def test_an_append_after_trimming_goes_on_counting(store: CoordinationStore) -> None:
    store.run(lambda c: put(c, "far", pointer=21))
    trim(store, "a", min_keep=0, max_keep=0)
    assert kept(store) == []
    draft = Draft("next", EntryChange(kind="backup"), planned_at=20)
    assert store.run(lambda c: log.append(c, Acting("a", "near", 1), draft)) == 21


@pytest.mark.parametrize(("least", "most"), [(-1, 5), (6, 5)])
def test_numbers_that_contradict_each_other_are_refused(store: CoordinationStore, least: int, most: int) -> None:
    with pytest.raises(UsageError, match="must not be negative, nor above"):
        trim(store, "a", min_keep=least, max_keep=most)
