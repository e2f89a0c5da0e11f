"""Surveys: each executor is asked until all have answered, and the closest times tell of clocks."""

from __future__ import annotations

import time
from typing import Any

import pytest

from holdfast.common.errors import HoldfastError
from sparkjobs.executors.survey import ROUNDS, WorkerFacts, WorkerSurvey, survey, wait_for_executors
from sparkjobs.executors.worker_facts import facts


def told(host: str, clock: float = 0.0) -> dict[str, Any]:
    return {**facts(), "host": host, "clock": clock}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of this machine's clock, which only waiting moves."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def test_all_are_there_once_no_more_come(clock: list[float]) -> None:
    wait_for_executors(lambda: 3 if clock[0] > 4.0 else int(clock[0] > 2.0))
    assert 9.0 < clock[0] < 10.0


def test_no_executor_is_told_after_a_minute_with_what_to_look_at(clock: list[float]) -> None:
    with pytest.raises(HoldfastError, match=r"no worker has taken this job within 60 s: look at the master's page"):
        wait_for_executors(lambda: 0)
    assert 60.0 <= clock[0] < 61.0


def test_it_ends_when_each_executor_has_answered() -> None:
    rounds = iter([["a", "a"], ["b", "a"], ["never asked"]])
    found = survey(2, lambda count: [told(host) for host in next(rounds)])
    assert [host for host, _ in found.workers] == ["a", "b"]


def test_one_that_never_answers_ends_it_after_some_rounds() -> None:
    asked: list[int] = []

    def run(count: int) -> list[dict[str, Any]]:
        asked.append(count)
        return [told("a")]

    found = survey(2, run)
    assert (len(asked), len(found.workers), found.expected) == (ROUNDS, 1, 2)


def test_the_closest_two_times_tell_how_far_a_clock_is_ahead() -> None:
    found = WorkerSurvey(1)
    for clock_there, begun, ended in ((107.0, 100.0, 110.0), (205.0, 200.0, 201.0), (309.0, 300.0, 302.0)):
        found.add(WorkerFacts(**told("a", clock_there)), begun, ended)
    assert list(found.clocks.values()) == [(4.5, 0.5)]
    assert [each.clock for each in found.workers.values()] == [107.0]
