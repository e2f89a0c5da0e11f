"""How long triggers pause between two looks."""

from __future__ import annotations

import pytest

from holdfast_airflow.triggers.pauses import SHORTEST_S, next_pause


def test_what_has_just_begun_is_looked_at_again_soon() -> None:
    assert next_pause(0.0, 10.0) == SHORTEST_S
    assert next_pause(3 * SHORTEST_S, 10.0) == SHORTEST_S


def test_a_pause_is_a_quarter_of_what_was_waited_up_to_the_longest() -> None:
    assert next_pause(20.0, 10.0) == 5.0
    assert next_pause(3600.0, 10.0) == 10.0


@pytest.mark.parametrize("waited", [0.0, 3600.0])
def test_no_pause_is_longer_than_was_asked_for(waited: float) -> None:
    assert next_pause(waited, 0.01) == 0.01


def test_an_hour_takes_little_more_looks_than_with_the_longest_pause_all_the_time() -> None:
    waited, looks = 0.0, 0
    while waited < 3600:
        waited += next_pause(waited, 10.0)
        looks += 1
    assert looks <= 360 + 20
