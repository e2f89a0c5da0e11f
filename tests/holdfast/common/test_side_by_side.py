"""Work that is done several at a time leaves no thread behind; questions take no longer than their limit."""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from holdfast.common.side_by_side import NoAnswerError, ask_side_by_side, do_side_by_side

ROOT = Path(__file__).parents[3]
CLOSED_BY_EXECUTORS = {"sparkjobs/tasks/changes.py", "sparkjobs/tasks/pieces.py"}


def test_results_are_in_order_and_no_thread_is_left() -> None:
    threads = set()
    both = threading.Barrier(2)

    def work(number: int) -> int:
        threads.add(threading.current_thread())
        both.wait(10)
        return number * 2

    assert do_side_by_side(work, range(4), at_once=2) == [0, 2, 4, 6]
    assert do_side_by_side(work, [], at_once=2) == []
    assert [thread.is_alive() for thread in threads] == [False, False]


def test_the_first_failure_in_order_is_raised() -> None:
    def work(number: int) -> int:
        raise ValueError(number)

    with pytest.raises(ValueError, match=r"^0$"):
        do_side_by_side(work, range(9), at_once=3)


def waits_for_threads_where_it_yields(function: ast.FunctionDef) -> bool:
    if any("contextmanager" in ast.unparse(decorator) for decorator in function.decorator_list):
        return False
    blocks = [node for node in ast.walk(function) if isinstance(node, ast.With)]
    return any(
        "ThreadPoolExecutor" in ast.unparse(block.items[-1]) and isinstance(node, ast.Yield | ast.YieldFrom)
        for block in blocks
        for node in ast.walk(block)
    )


def test_no_generator_waits_for_threads_where_the_garbage_collector_may_end_it() -> None:
    """Archives were opened for ever: a reading that damage had ended was collected while a thread of another began."""
    product = [path for part in ("holdfast", "sparkjobs", "locking", "plugins") for path in (ROOT / part).rglob("*.py")]
    found = {
        str(path.relative_to(ROOT))
        for path in product
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and waits_for_threads_where_it_yields(node)
    }
    assert found == CLOSED_BY_EXECUTORS


def test_all_are_asked_at_once_and_each_answer_or_error_comes_back() -> None:
    together = threading.Barrier(3)

    def answer(name: str) -> str:
        together.wait(10)
        if name == "b":
            raise ValueError(name)
        return name

    answers = ask_side_by_side({name: lambda name=name: answer(name) for name in "abc"}, limit_s=10)  # type: ignore[misc]
    assert (answers["a"], answers["c"]) == ("a", "c")
    assert isinstance(answers["b"], ValueError)


def test_one_that_hangs_costs_the_limit_and_the_others_answer() -> None:
    hung = threading.Event()
    began = time.monotonic()
    answers = ask_side_by_side(
        {"good": lambda: True, "hung": lambda: hung.wait(60), "also": lambda: hung.wait(60)}, limit_s=0.2
    )
    assert time.monotonic() - began < 5
    hung.set()
    assert answers["good"] is True
    assert isinstance(answers["hung"], NoAnswerError)
    assert isinstance(answers["also"], NoAnswerError)
    assert str(answers["hung"]) == "it has not answered within 0.2 s"


def test_nobody_to_ask_is_no_wait() -> None:
    assert ask_side_by_side({}, limit_s=60) == {}


@pytest.mark.slow
def test_an_exit_does_not_wait_for_one_that_hangs() -> None:
    code = (
        "import threading\n"
        "from holdfast.common.side_by_side import ask_side_by_side\n"
        "print(ask_side_by_side({'hung': threading.Event().wait}, limit_s=0.1))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "NoAnswerError" in ended.stdout
