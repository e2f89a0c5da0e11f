"""Every order in which backups with a quorum, failures, losses, recoveries and reads meet, with the shipped code."""

from __future__ import annotations

import pytest

from tests.support.replicas.exploring import ViolatedError
from tests.support.replicas.log_mutants import Mutant
from tests.support.replicas.quorum_explorer import Bounds, explored
from tests.support.replicas.quorum_mutants import MUTANTS

pytestmark = pytest.mark.slow

_EXHAUSTIVE = pytest.mark.exhaustive


@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param(Bounds(appends=2), id="a chain"),
        pytest.param(Bounds(appends=2, deadlines=1), id="a chain and a failure", marks=_EXHAUSTIVE),
        pytest.param(Bounds(backups=1, appends=2, deadlines=1), id="a retry"),
        pytest.param(Bounds(replicas=3, backups=1, appends=1, losses=1), id="a voter is lost", marks=_EXHAUSTIVE),
        pytest.param(Bounds(backups=1, appends=1, losses=1, deadlines=1), id="a loss and a failure", marks=_EXHAUSTIVE),
        pytest.param(Bounds(appends=1, losses=1, kills=1), id="a recovery is killed"),
        pytest.param(Bounds(appends=2, losses=1, kills=1), id="a recovery of more is killed", marks=_EXHAUSTIVE),
        pytest.param(Bounds(backups=1, appends=1, reads=1), id="a read"),
        pytest.param(
            Bounds(sizes=(2, 1), backups=1, appends=2, reads=1), id="a read of two sources", marks=_EXHAUSTIVE
        ),
        pytest.param(Bounds(sizes=(2, 1), backups=1, appends=2, reads=2), id="reads of them", marks=_EXHAUSTIVE),
        pytest.param(
            Bounds(backups=1, appends=1, deadlines=1, reads=2), id="reads and a failure", marks=pytest.mark.exhaustive
        ),
        pytest.param(Bounds(backups=1, appends=2, deadlines=1, leases=1), id="another epoch", marks=_EXHAUSTIVE),
        pytest.param(Bounds(sizes=(2, 2), backups=1, appends=2, deadlines=1), id="two fail", marks=_EXHAUSTIVE),
        pytest.param(Bounds(backups=1, appends=2, deadlines=1, reads=2), id="reads and a retry", marks=_EXHAUSTIVE),
        pytest.param(Bounds(replicas=3, backups=1, appends=2, deadlines=1), id="three and a retry", marks=_EXHAUSTIVE),
        pytest.param(Bounds(replicas=3, backups=1, appends=1, losses=2), id="two are lost", marks=_EXHAUSTIVE),
    ],
)
def test_no_order_of_steps_breaks_a_quorum_or_a_read(bounds: Bounds, monkeypatch: pytest.MonkeyPatch) -> None:
    assert explored(bounds, monkeypatch) > 500


LONG = {
    "one pending quorum of a source",
    "that a recovery has all that succeeded",
    "that votes are of their own epoch",
}
"""Guards whose fault shows after seconds: their scenarios are in `log/test_quorum.py`, `log/test_recovery_claim.py`."""


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(each, id=each.name, marks=_EXHAUSTIVE if each.name in LONG else ()) for each in MUTANTS],
)
def test_each_guard_is_missed_where_it_is_taken_out(mutant: Mutant[Bounds], monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.put_in(monkeypatch)
    with pytest.raises(ViolatedError):
        explored(mutant.bounds, monkeypatch, deep=True)
