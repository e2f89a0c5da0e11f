"""Every interleaving of a few clients of the shipped locks, with deaths, lost answers and expiring leases.

docs/decisions/locks.md says what is explored and why nothing is missed by what is left out.
``make test-all`` explores larger scenarios and walks; ``HOLDFAST_SEED=n`` takes one walk again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from locking import Runtime, folder
from tests.support.explorer.clients import Held
from tests.support.explorer.replay import Answers, AskingStore
from tests.support.explorer.scenarios import (
    ALL,
    LARGE,
    LONG,
    MIXED,
    WITHOUT_SECOND_LINE,
    client,
    reaches_second_line,
)
from tests.support.explorer.search import SecondLineReached, explore, explore_by_both_lines, replay, walk
from tests.support.explorer.surroundings import surroundings
from tests.support.explorer.world import Machine, Scenario, alone

SEEDS = [int(os.environ["HOLDFAST_SEED"])] if "HOLDFAST_SEED" in os.environ else range(60)

RENEWED = next(each for each in ALL if each.name == "a writer that renews and a writer, one answer lost")

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _explored() -> Iterator[None]:
    with surroundings():
        yield


def tiered(scenarios: list[Scenario]) -> list[Any]:
    """Return scenarios as parameters, those that take long for `make test-all` alone."""
    return [
        pytest.param(each, id=each.name, marks=[pytest.mark.exhaustive] if each.name in LONG else [])
        for each in scenarios
    ]


@pytest.mark.parametrize("scenario", tiered(ALL))
def test_no_order_of_events_breaks_a_law(scenario: Scenario) -> None:
    """``check()`` also looks for another holder, a second line; the locks exclude each other even where it does not.

    Both are asked of the same worlds where only the laws call ``check()``. Where a client does, the next test is the
    one without the second line.
    """
    found = explore(scenario) if reaches_second_line(scenario) else explore_by_both_lines(scenario)
    assert found.broken is None, str(found)


@pytest.mark.parametrize("scenario", tiered(WITHOUT_SECOND_LINE))
def test_nor_without_the_second_line(scenario: Scenario) -> None:
    with patch.object(folder, "check_alone"):
        found = explore(scenario)
    assert found.broken is None, str(found)


@pytest.mark.exhaustive
@pytest.mark.parametrize("scenario", LARGE, ids=lambda each: each.name)
def test_nor_in_larger_scenarios(scenario: Scenario) -> None:
    found = explore(scenario, limit=20_000_000)
    assert found.broken is None, str(found)


def test_nor_on_ways_at_random_through_a_crowd() -> None:
    for seed in SEEDS:
        found = walk(MIXED, seed)
        assert found.broken is None, str(found)


@pytest.mark.exhaustive
def test_nor_on_many_more_ways_through_a_crowd() -> None:
    for seed in range(60, 20_000):
        found = walk(MIXED, seed)
        assert found.broken is None, str(found)


def test_every_long_scenario_is_one_of_these() -> None:
    assert {each.name for each in ALL} >= LONG


def test_what_is_judged_by_both_lines_at_once_fails_by_either() -> None:
    undisturbed = replace(ALL[0], kept=False)
    with patch("locking.transaction._Attempt.verify_alone"):
        assert explore(undisturbed).broken is None, "the second line hides it"
        found = explore_by_both_lines(undisturbed)
    assert found.broken is not None
    assert "both hold the lock" in found.broken


def test_where_a_client_looks_for_another_holder_it_is_explored_twice() -> None:
    with pytest.raises(SecondLineReached):
        explore_by_both_lines(RENEWED)


def test_a_printed_schedule_happens_again() -> None:
    with patch("locking.transaction._Attempt.verify_alone"):
        found = explore(ALL[0])
        assert found.broken is not None
        again = replay(ALL[0], found.schedule)
    assert (again.broken, again.schedule) == (found.broken, found.schedule)
    assert replay(ALL[0], found.schedule[:2]).broken is None


def test_what_the_explorer_keeps_of_a_lease_is_all_that_it_knows() -> None:
    memory, _ = alone(Machine(ALL[0]).start(), client(9), ("write",))
    assert memory.held is not None
    lease = memory.held.lease(AskingStore(Answers(())), Runtime())
    kept = {"_commit", "_trusted_since", "_over", "_may_come_late"}
    given = {"_folder", "_target", "_terms", "_clock", "_given_up", "_guard", "_renewer", "_pid"}
    unused = {"_watcher", "_on_danger", "_warned_of", "_token"}
    assert set(vars(lease)) == kept | given | unused
    assert Held.of(lease) == memory.held


def test_a_seed_takes_the_same_way_again() -> None:
    assert walk(MIXED, 7) == walk(MIXED, 7)
