"""Every order in which replicas, trimmings and recoveries can meet, with the shipped transactions."""

from __future__ import annotations

import pytest

from tests.support.replicas.exploring import ViolatedError
from tests.support.replicas.log_explorer import Bounds, explored
from tests.support.replicas.log_mutants import MUTANTS, Mutant

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param(Bounds(appends=1, trims=1, pauses=1, rots=0, kills=0), id="away"),
        pytest.param(
            Bounds(appends=2, trims=1, pauses=1, rots=0, kills=0), id="away for longer", marks=pytest.mark.exhaustive
        ),
        pytest.param(Bounds(appends=1, trims=1, pauses=0, rots=1, kills=1), id="killed"),
        pytest.param(Bounds(appends=1, trims=1, pauses=1, rots=1, kills=0), id="paused", marks=pytest.mark.exhaustive),
    ],
)
def test_no_order_of_steps_breaks_the_log(bounds: Bounds, monkeypatch: pytest.MonkeyPatch) -> None:
    assert explored(bounds, monkeypatch) > 500


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_guard_is_missed_where_it_is_taken_out(mutant: Mutant[Bounds], monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.put_in(monkeypatch)
    with pytest.raises(ViolatedError):
        explored(mutant.bounds, monkeypatch, deep=True)
