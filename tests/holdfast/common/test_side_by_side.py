"""Questions to several places take no longer than the limit, and no exit waits for one that hangs."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from holdfast.common.side_by_side import NoAnswerError, ask_each


def test_all_are_asked_at_once_and_each_answer_or_error_comes_back() -> None:
    together = threading.Barrier(3)

    def answer(name: str) -> str:
        together.wait(10)
        if name == "b":
            raise ValueError(name)
        return name

    answers = ask_each({name: lambda name=name: answer(name) for name in "abc"}, limit_s=10)  # type: ignore[misc]
    assert (answers["a"], answers["c"]) == ("a", "c")
    assert isinstance(answers["b"], ValueError)


def test_one_that_hangs_costs_the_limit_and_the_others_answer() -> None:
    hung = threading.Event()
    began = time.monotonic()
    answers = ask_each(
        {"good": lambda: True, "hung": lambda: hung.wait(60), "also": lambda: hung.wait(60)}, limit_s=0.2
    )
    assert time.monotonic() - began < 5
    hung.set()
    assert answers["good"] is True
    assert isinstance(answers["hung"], NoAnswerError)
    assert isinstance(answers["also"], NoAnswerError)
    assert str(answers["hung"]) == "it has not answered within 0.2 s"


def test_nobody_to_ask_is_no_wait() -> None:
    assert ask_each({}, limit_s=60) == {}


@pytest.mark.slow
def test_an_exit_does_not_wait_for_one_that_hangs() -> None:
    code = (
        "import threading\n"
        "from holdfast.common.side_by_side import ask_each\n"
        "print(ask_each({'hung': threading.Event().wait}, limit_s=0.1))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "NoAnswerError" in ended.stdout
