"""Turns: what only one may have is taken once it is free, or its holder is named, and its lease is renewed."""

from __future__ import annotations

import threading

import pytest

from holdfast.common.errors import BusyError, HoldfastError
from holdfast.replication.work.turn import POLL_S, in_turn, renewing
from tests.support.no_waiting import no_waiting


class Held:
    """Something that somebody has for some tries."""

    def __init__(self, tries: int) -> None:
        self.tries = tries
        self.asked = 0

    def take(self) -> str:
        self.asked += 1
        if self.asked <= self.tries:
            raise BusyError(f"somebody has it at try {self.asked}")
        return "mine"


def test_what_is_free_is_taken_at_once() -> None:
    assert in_turn(Held(0).take, wait=0.0, say=pytest.fail, meanwhile=pytest.fail) == "mine"


def test_who_is_waited_for_is_said_once_and_what_else_is_to_be_done_is_done_before_each_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    no_waiting(monkeypatch, slept.append)
    said: list[str] = []
    done: list[int] = []
    held = Held(3)
    assert in_turn(held.take, wait=60.0, say=said.append, meanwhile=lambda: done.append(held.asked)) == "mine"
    assert said == ["waiting: somebody has it at try 1"]
    assert done == [1, 2, 3]
    assert slept == [POLL_S] * 3


def test_the_last_pause_ends_with_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [0.0], list[float]()
    monkeypatch.setattr("holdfast.replication.work.turn.time.monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    no_waiting(monkeypatch, sleep)
    with pytest.raises(BusyError, match="at try 4"):
        in_turn(Held(99).take, wait=5.0, say=lambda words: None)
    assert slept == [2.0, 2.0, 1.0]


PATIENCE_S = 20.0


def running(name: str) -> bool:
    return any(thread.name == name for thread in threading.enumerate())


def test_it_is_renewed_again_and_again_also_where_a_renewal_failed() -> None:
    thrice, tries = threading.Event(), list[int]()

    def renew() -> None:
        tries.append(len(tries))
        if len(tries) == 3:
            thrice.set()
        raise HoldfastError("the store is away")

    with renewing(renew, every=0.001, name="renewed lease"):
        assert running("renewed lease")
        assert thrice.wait(PATIENCE_S)
    assert not running("renewed lease")


def test_nobody_waits_for_the_next_renewal_at_the_end() -> None:
    with renewing(pytest.fail, every=3600.0, name="idle lease"):
        assert running("idle lease")
    assert not running("idle lease")


def test_the_blocks_own_error_ends_it_too() -> None:
    with pytest.raises(ZeroDivisionError), renewing(lambda: None, every=3600.0, name="failed lease"):
        raise ZeroDivisionError
    assert not running("failed lease")
