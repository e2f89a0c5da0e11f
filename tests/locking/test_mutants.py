"""Without any one of its guards the protocol breaks a law, and the explorer shows the shortest way there."""

from __future__ import annotations

import pytest

from tests.support.explorer.mutants import MUTANTS, Mutant
from tests.support.explorer.search import explore
from tests.support.explorer.surroundings import surroundings

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.guard)
def test_the_explorer_misses_no_guard(mutant: Mutant) -> None:
    with surroundings(), mutant.applied():
        found = explore(mutant.scenario)
    print(found)  # noqa: T201 - with pytest -s: the shortest schedule
    assert found.broken is not None, f"nothing breaks without this guard: {mutant.guard}"
