"""Processes that begin together, and answer."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable

import pytest

from bench.support.forked import ForkedError, run_forked

pytestmark = [pytest.mark.forks, pytest.mark.slow]


@pytest.mark.exhaustive
def test_a_task_that_fails_is_told_and_the_others_are_ended() -> None:
    def fail(meet: Callable[[], None]) -> int:
        del meet
        raise ValueError("no disk")

    def wait(meet: Callable[[], None]) -> int:
        meet()
        return 1

    with pytest.raises(ForkedError, match="ValueError: no disk"):
        run_forked([wait, fail])
    assert multiprocessing.active_children() == []
