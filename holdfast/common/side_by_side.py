"""Work and questions that are done several at a time."""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from holdfast.common.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")
S = TypeVar("S")


def do_side_by_side(work: Callable[[S], T], items: Iterable[S], *, at_once: int) -> list[T]:
    """Call a function with several values, some at a time; return the results in their order.

    All threads have ended when it returns. It is no generator: the garbage collector may end an abandoned one in any
    thread, and waiting for a thread there can block that thread for ever.

    :raises Exception: of the first call in order that failed; calls that have not begun are left out.
    """
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(work, items))


class NoAnswerError(HoldfastError):
    """Question that was not answered in time."""


def ask_side_by_side(questions: Mapping[str, Callable[[], T]], *, limit_s: float) -> dict[str, T | Exception]:
    """Ask several questions at once, and return the answers, or errors, by name.

    A question that takes longer than the limit has a `NoAnswerError`. It runs on in a daemon thread, so a question must
    change nothing.

    :param limit_s: seconds, for all of them together.
    """
    answered: queue.SimpleQueue[tuple[str, T | Exception]] = queue.SimpleQueue()

    def ask(name: str, question: Callable[[], T]) -> None:
        try:
            answered.put((name, question()))
        except Exception as error:  # noqa: BLE001 - it is an answer
            answered.put((name, error))

    until = time.monotonic() + limit_s
    for name, question in questions.items():
        threading.Thread(target=ask, args=(name, question), name=f"question to {name}", daemon=True).start()
    answers: dict[str, T | Exception] = {}
    while len(answers) < len(questions):
        try:
            name, answer = answered.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        answers[name] = answer
    late = NoAnswerError(f"it has not answered within {limit_s:g} s")
    return {name: answers.get(name, late) for name in questions}
