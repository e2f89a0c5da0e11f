"""Since when no replica has had the files of an entry."""

from __future__ import annotations

import pytest

from holdfast.replication.log import schema
from holdfast.replication.log.log import clear_missing, missing_entries, note_missing
from holdfast.replication.log.store import CoordinationStore, clock


def noted(store: CoordinationStore, index: int, pause: float = 600.0) -> float:
    return store.run(lambda c: note_missing(c, "a", index, pause=pause))


def seen(store: CoordinationStore) -> list[int]:
    return [index for index, _ in store.run(lambda c: missing_entries(c, "a"))]


def age(store: CoordinationStore, *, since: float, seen: float) -> None:
    """Have the only record begun, and been seen last, some seconds ago."""
    now = store.run(clock)
    store.run(lambda c: c.execute(schema.missing.update().values(since=now - since, seen=now - seen)))


def test_it_is_known_from_the_first_look_on_while_somebody_looks(registered: CoordinationStore) -> None:
    assert noted(registered, 3) == 0
    age(registered, since=900, seen=60)
    assert noted(registered, 3) == pytest.approx(900, abs=5)
    ((index, since),) = registered.run(lambda c: missing_entries(c, "a"))
    assert index == 3
    assert registered.run(clock) - since == pytest.approx(900, abs=5)


@pytest.mark.parametrize("last", [601.0, -60.0], ids=["nobody has looked for long", "a clock that went back"])
def test_it_begins_anew_where_nobody_can_say_that_it_went_on(registered: CoordinationStore, last: float) -> None:
    noted(registered, 3)
    age(registered, since=9000, seen=last)
    assert noted(registered, 3) == 0


def test_what_was_found_is_forgotten_and_the_rest_is_not(registered: CoordinationStore) -> None:
    for index in (4, 2, 3, 1):
        noted(registered, index)
    registered.run(lambda c: note_missing(c, "another", 2, pause=1.0))
    registered.run(lambda c: clear_missing(c, "a", first=2, last=3))
    assert seen(registered) == [1, 4]
    assert [index for index, _ in registered.run(lambda c: missing_entries(c, "another"))] == [2]
