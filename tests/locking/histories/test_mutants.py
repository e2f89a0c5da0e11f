"""Without any one of its guards the protocol breaks a law, and the explorer shows the shortest way there."""

from __future__ import annotations

import pytest

from tests.support.explorer.mutants import MUTANTS, Mutant
from tests.support.explorer.search import explore, replay
from tests.support.explorer.surroundings import surroundings

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(each, id=each.guard, marks=[pytest.mark.exhaustive] if each.way else []) for each in MUTANTS],
)
def test_the_explorer_misses_no_guard(mutant: Mutant) -> None:
    with surroundings(), mutant.applied():
        found = explore(mutant.scenario)
    print(found)  # noqa: T201 - with pytest -s: the shortest schedule
    assert found.broken is not None, f"nothing breaks without this guard: {mutant.guard}"
    assert len(mutant.way) in {0, len(found.schedule)}, "there is a shorter way now"


@pytest.mark.parametrize("mutant", [pytest.param(each, id=each.guard) for each in MUTANTS if each.way])
def test_the_way_that_takes_long_to_find_is_known(mutant: Mutant) -> None:
    """It is only taken here; where a step of it is not there any more, the search above prints the new one."""
    with surroundings(), mutant.applied():
        found = replay(mutant.scenario, mutant.way)
    assert found.broken is not None, f"nothing breaks without this guard: {mutant.guard}"
