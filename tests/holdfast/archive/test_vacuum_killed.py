"""Vacuums that end, or are failed by the store, at each of their requests in turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest

from holdfast.archive import Archive
from holdfast.common.errors import HoldfastError
from locking import LockError
from locking.store import StoreError, StoreOutcomeUnknown, StoreUnavailable
from tests.support.archives.vacuuming import HOUR, Scene, named_now, run_vacuum, scene
from tests.support.no_waiting import no_waiting
from tests.support.stores.memory_store import Killed, MemoryStore, Spoilt

pytestmark = pytest.mark.slow

When = Literal["before", "after"]


@pytest.fixture(scope="module")
def made() -> Scene:
    return scene()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    no_waiting(monkeypatch)


def all_requests(made: Scene) -> int:
    store = made.store.copy()
    run_vacuum(store)
    return len(store.requests)


def spoilt_runs(made: Scene, when: When, error: BaseException) -> Iterator[tuple[MemoryStore, BaseException | None]]:
    """Yield what is left of a run with each of its requests spoilt, and how it ended."""
    for number in range(1, all_requests(made) + 1):
        store = made.store.copy()
        store.spoilt = Spoilt(number, when, error)
        ended: BaseException | None = None
        try:
            run_vacuum(store)
        except (Killed, StoreError, LockError, HoldfastError) as raised:
            ended = raised
        store.spoilt = None
        yield store, ended


def must_be_vacuumed_by_another(made: Scene, store: MemoryStore) -> None:
    """Make sure that nothing needed is gone, and that another run does all that is left, once locks have expired."""
    assert made.needed <= store.keys()
    assert named_now(store) <= store.keys()
    store.advance(HOUR)
    done = run_vacuum(store)
    assert (done.left, done.busy) == (0, [])
    assert store.keys() & made.doomed == set()
    assert made.needed <= store.keys()
    assert Archive.open(store).state.removed == {}


# Killed after one request it leaves what it leaves when it is killed before the next one.
@pytest.mark.parametrize("when", ["before", pytest.param("after", marks=pytest.mark.exhaustive)])
def test_a_vacuum_that_is_killed_at_any_request_loses_nothing_and_the_next_one_leaves_nothing(
    made: Scene, when: When
) -> None:
    runs = 0
    for store, ended in spoilt_runs(made, when, Killed()):
        assert isinstance(ended, Killed)
        must_be_vacuumed_by_another(made, store)
        runs += 1
    assert runs > 60


@pytest.mark.parametrize(
    ("error", "when"),
    [
        pytest.param(StoreUnavailable("out of order"), "before", marks=pytest.mark.exhaustive),
        pytest.param(StoreOutcomeUnknown("no answer"), "before", marks=pytest.mark.exhaustive),
        pytest.param(StoreOutcomeUnknown("no answer"), "after", marks=pytest.mark.exhaustive),
    ],
)
def test_a_request_that_fails_loses_nothing_and_the_next_vacuum_leaves_nothing(
    made: Scene, when: When, error: StoreError
) -> None:
    for store, _ in spoilt_runs(made, when, error):
        must_be_vacuumed_by_another(made, store)
