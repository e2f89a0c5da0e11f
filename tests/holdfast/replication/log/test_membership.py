"""Replicas are added and removed by entries, which count once enough of those before have executed them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from holdfast.common.errors import BusyError
from holdfast.replication.log import replicas, schema
from holdfast.replication.log.log import MEMBERS, LogEntry, entries
from holdfast.replication.log.membership import check_counts, join, leave, waited_for
from holdfast.replication.log.recovery_claim import claim, finish
from holdfast.replication.log.replicas import ReplicaRow
from holdfast.replication.log.store import CoordinationStore

Put = Callable[..., None]


def whole(put: Put, name: str, pointer: int = 5) -> None:
    put(name, pointer=pointer, is_lost=False, lost_reason="")


def row(store: CoordinationStore, name: str) -> ReplicaRow:
    return store.run(lambda c: replicas.replica(c, "a", name))


def entry(store: CoordinationStore, index: int) -> LogEntry:
    return store.run(lambda c: entries(c, "a", index))[0]


def joined(store: CoordinationStore, name: str = "new") -> int:
    return store.run(lambda c: join(c, "a", name=name, url=f"/{name}"))


def left(store: CoordinationStore, name: str, *, force: bool = False) -> int:
    return store.run(lambda c: leave(c, "a", name, force=force))


def test_an_addition_is_an_entry_that_names_all_replicas(registered: CoordinationStore) -> None:
    assert joined(registered) == 5
    found = entry(registered, 5)
    assert found.change.kind == MEMBERS
    assert found.change.members == {"near": "/near", "far": "/far", "new": "/new"}
    assert (row(registered, "new").joined_by, row(registered, "new").is_lost) == (5, True)
    assert joined(registered) == 5  # again
    assert registered.run(lambda c: replicas.log_state(c, "a")).head == 5


def test_the_end_of_its_first_recovery_is_an_entry_again(registered: CoordinationStore, put: Put) -> None:
    whole(put, "far", pointer=6)
    put("near", pointer=6)
    joined(registered)
    for index in (6, 6):  # a later recovery is none
        acting, _ = registered.run(lambda c: claim(c, "a", "new"))
        registered.run(partial(finish, acting=acting))
        assert (row(registered, "new").joined_by, row(registered, "new").is_lost) == (index, False)
        assert entry(registered, 6).change.members == {"near": "/near", "far": "/far", "new": "/new"}
        put("new", is_lost=True, lost_reason="it was away")
        put("near", pointer=7)
    assert registered.run(lambda c: replicas.log_state(c, "a")).head == 6


def test_a_removal_names_those_that_stay(registered: CoordinationStore, put: Put) -> None:
    whole(put, "far")
    joined(registered)
    assert left(registered, "far") == 6
    assert entry(registered, 6).change.members == {"near": "/near", "new": "/new"}
    assert row(registered, "far").leaves_by == 6
    assert left(registered, "far") == 6
    # Who leaves already does not stay.
    assert left(registered, "new", force=True) == 7
    assert entry(registered, 7).change.members == {"near": "/near"}


def test_the_last_one_leaves_without_an_entry(registered: CoordinationStore) -> None:
    r = schema.replicas.c
    registered.run(lambda c: c.execute(sa.delete(schema.replicas).where(r.name == "far")))
    assert left(registered, "near", force=True) == 0
    assert registered.run(lambda c: replicas.log_state(c, "a")).head == 4


@pytest.mark.parametrize(
    ("near", "far", "lost", "count", "waiting"),
    [
        (5, 5, False, 2, ["far", "near"]),
        (6, 5, False, 1, ["far"]),
        (6, 6, False, 0, []),
        (6, 9, True, 1, ["far"]),
    ],
    ids=["none has it", "one has it", "both have it", "a lost one counts not"],
)
def test_two_of_those_before_have_to_execute_it(
    registered: CoordinationStore, put: Put, near: int, far: int, lost: bool, count: int, waiting: list[str]
) -> None:
    index = joined(registered)
    put("near", pointer=near)
    put("far", pointer=far, is_lost=lost, lost_reason="its disk is gone" if lost else "")
    put("new", pointer=9, is_lost=False)  # it came by the entry itself
    found: Any = registered.run(lambda c: waited_for(c, "a", index))
    assert (found[0], [each.name for each in found[1]]) == (count, waiting)


def test_where_there_were_fewer_all_of_them_have_to(registered: CoordinationStore, put: Put) -> None:
    index = joined(registered)
    put("near", pointer=6)
    assert registered.run(lambda c: waited_for(c, "a", index, but_for="far")) == (0, [])
    registered.run(lambda c: check_counts(c, "a", index, but_for="far"))


def test_who_is_waited_for_is_named(registered: CoordinationStore, put: Put) -> None:
    index = joined(registered)
    put("far", lost_reason="it is new")
    with pytest.raises(BusyError) as caught:
        registered.run(lambda c: check_counts(c, "a", index))
    assert str(caught.value).startswith(
        "entry 5, which says which replicas shop has, counts once 2 of far (lost: it is new), near have executed it"
    )
    put("near", pointer=6)
    with pytest.raises(BusyError, match=r"counts once 1 of far \(lost: it is new\) has executed it"):
        registered.run(lambda c: check_counts(c, "a", index))
    whole(put, "far", pointer=6)
    registered.run(lambda c: check_counts(c, "a", index))
