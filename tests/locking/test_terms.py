"""The durations of a lock: which there may be, and that each leaves room for the next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locking import Terms
from locking.terms import CLOCK_STEP, LONGEST_DRAIN, MARKER_LIFE

SECONDS = st.floats(CLOCK_STEP, 1e6)


@given(SECONDS, SECONDS, SECONDS)
def test_an_attempt_is_over_before_others_end_it_and_renewals_before_the_lease_is(
    lease: float, grace: float, attempt: float
) -> None:
    terms = Terms(lease, grace, attempt)
    assert 0 < terms.drain < terms.budget < terms.attempt_expiry <= terms.expiry
    assert terms.drain <= LONGEST_DRAIN
    assert terms.attempt_lease == min(lease, attempt)
    assert 3 * terms.renewal_interval == pytest.approx(lease)
    assert (terms.expiry, terms.attempt_expiry) == (lease + grace, min(lease, attempt) + grace)


def test_the_usual_terms_are_those_of_the_documentation() -> None:
    terms = Terms()
    assert (terms.lease, terms.grace, terms.attempt) == (120, 60, 120)
    assert (terms.expiry, terms.attempt_expiry, terms.drain, terms.budget, terms.renewal_interval) == (
        180, 180, 60, 90, 40,
    )  # fmt: skip
    assert terms.expiry < MARKER_LIFE


@pytest.mark.parametrize("name", ["lease", "grace", "attempt"])
@pytest.mark.parametrize("value", [0.0, -1.0, 0.99, float("nan"), float("inf"), float("-inf")])
def test_a_duration_that_no_clock_of_a_store_can_tell_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^A lock's {name} is {value} s; it must be at least 1 s.$"):
        Terms(**{name: value})
    assert getattr(Terms(**{name: CLOCK_STEP}), name) == CLOCK_STEP
