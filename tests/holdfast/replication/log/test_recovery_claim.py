"""Who recovers a lost replica, from which one, and what ends that."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import Connection

from holdfast.common.errors import BusyError, RefusedError, UsageError
from holdfast.replication.log import replicas, schema
from holdfast.replication.log.errors import EpochOverError
from holdfast.replication.log.membership import join
from holdfast.replication.log.recovery_claim import claim, finish, give_up, go_on, take_pointer
from holdfast.replication.log.replicas import Acting, ReplicaRow
from holdfast.replication.log.store import CoordinationStore

Put = Callable[..., None]
Step = Callable[[Connection, Acting], None]


def run(store: CoordinationStore, step: Step, acting: Acting) -> None:
    store.run(lambda c: step(c, acting))


def row(store: CoordinationStore, name: str = "far") -> ReplicaRow:
    return store.run(lambda c: replicas.replica(c, "a", name))


def begun(store: CoordinationStore, source: str | None = None, lease: float = 900.0) -> Acting:
    return store.run(lambda c: claim(c, "a", "far", source=source, lease=lease))[0]


def change_log(store: CoordinationStore, **values: object) -> None:
    store.run(lambda c: c.execute(schema.archives.update().values(**values)))


def test_a_recovery_takes_over_the_pointer_of_its_source_in_an_epoch_of_its_own(registered: CoordinationStore) -> None:
    epoch = row(registered).epoch
    acting, source = registered.run(lambda c: claim(c, "a", "far"))
    assert (acting, source.name) == (Acting("a", "far", epoch + 1), "near")
    found = row(registered)
    assert (found.recovers_from, found.pointer, found.epoch, found.is_lost) == ("near", 5, epoch + 1, True)
    registered.run(lambda c: finish(c, acting))
    found = row(registered)
    assert (found.recovers_from, found.is_lost, found.lost_reason) == ("", False, "")


def test_it_is_made_from_the_one_that_has_executed_most_unless_another_is_named(
    registered: CoordinationStore, put: Put
) -> None:
    registered.run(lambda c: replicas.add(c, "a", name="off", url="/off"))
    put("off", pointer=4, is_lost=False)
    assert registered.run(lambda c: claim(c, "a", "far", source="off"))[1].name == "off"
    put("far", recovers_from="")
    assert registered.run(lambda c: claim(c, "a", "far"))[1].name == "near"
    put("far", recovers_from="")
    put("off", pointer=5)
    assert registered.run(lambda c: claim(c, "a", "far"))[1].name == "off"  # of equal ones the last by name


def test_only_what_is_lost_is_recovered_and_from_one_that_is_not(registered: CoordinationStore, put: Put) -> None:
    with pytest.raises(RefusedError, match="replica near is not lost: 'holdfast replica sync near'"):
        registered.run(lambda c: claim(c, "a", "near"))
    for source in ("far", "nobody"):
        with pytest.raises(UsageError, match=f"{source} is no replica to recover from; these are: near"):
            begun(registered, source)
    put("near", is_lost=True)
    with pytest.raises(RefusedError, match=r"all replicas are lost: .* 'holdfast replica elect'"):
        begun(registered)


def test_another_recovery_is_waited_for_until_its_lease_is_over(registered: CoordinationStore, put: Put) -> None:
    first = begun(registered)
    with pytest.raises(BusyError, match=r"far is being recovered from near; .* its lease ends in (899|900) s"):
        begun(registered)
    put("far", active_until=1.0)
    second = begun(registered)
    assert second.epoch == first.epoch + 1
    steps: tuple[Step, ...] = (go_on, finish, give_up, partial(take_pointer, pointer=5))
    for step in steps:
        with pytest.raises(EpochOverError, match="the recovery of far was given up, or begun again by another process"):
            run(registered, step, first)
    registered.run(lambda c: finish(c, second))


def test_one_that_was_given_up_may_begin_anew_at_once(registered: CoordinationStore) -> None:
    first = begun(registered)
    registered.run(lambda c: give_up(c, first))
    with pytest.raises(EpochOverError):
        registered.run(lambda c: go_on(c, first))
    begun(registered)


def test_a_source_that_lacks_what_a_quorum_has_is_to_be_synced_first(registered: CoordinationStore) -> None:
    change_log(registered, quorum_index=5)
    with pytest.raises(RefusedError, match=r"near has not executed entry 5 yet, .*'holdfast replica sync near' first"):
        begun(registered)
    change_log(registered, quorum_index=4)
    begun(registered)


def test_a_new_replica_is_not_made_before_its_addition_counts(registered: CoordinationStore, put: Put) -> None:
    registered.run(lambda c: join(c, "a", name="new", url="/new"))
    with pytest.raises(BusyError, match="entry 5, which says which replicas shop has, counts once 2 of far"):
        registered.run(lambda c: claim(c, "a", "new"))
    put("far", is_lost=False, pointer=6)
    put("near", pointer=6)
    assert registered.run(lambda c: claim(c, "a", "new"))[1].pointer == 6


def test_its_lease_runs_on_as_long_as_it_goes_on_and_must_run_at_its_end(
    registered: CoordinationStore, put: Put
) -> None:
    acting = begun(registered, lease=10.0)
    before = row(registered).active_until
    registered.run(lambda c: go_on(c, acting))
    assert row(registered).active_until > before + 800
    put("far", active_until=1.0)
    with pytest.raises(EpochOverError, match="the recovery of far took longer than its lease: recover it again"):
        registered.run(lambda c: finish(c, acting))


def test_a_pointer_is_taken_only_while_the_source_and_the_log_have_what_it_needs(
    registered: CoordinationStore, put: Put
) -> None:
    acting = begun(registered)
    registered.run(lambda c: take_pointer(c, acting, pointer=3))
    assert row(registered).pointer == 3
    change_log(registered, log_start=4)
    with pytest.raises(
        RefusedError, match=r"far cannot go on at entry 3: the log begins at 4 by now\. Recover it again"
    ):
        registered.run(lambda c: take_pointer(c, acting, pointer=3))
    with pytest.raises(RefusedError, match="the log begins at 4, and far needs entry 3: recover it again"):
        registered.run(lambda c: finish(c, acting))
    put("near", is_lost=True)
    with pytest.raises(RefusedError, match="far cannot go on at entry 4: near was lost meanwhile"):
        registered.run(lambda c: take_pointer(c, acting, pointer=4))
