"""Questions to several places at once, under one time limit for all of them."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from holdfast.common.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


class NoAnswerError(HoldfastError):
    """Place that has not answered in time.

    Whether it is there, and what it has, is not known.
    """


def ask_each(questions: Mapping[str, Callable[[], T]], *, limit_s: float) -> dict[str, T | Exception]:
    """Ask several questions at once, and return the answers by name.

    A question that raises has that error as its answer; one that takes longer than the limit has a `NoAnswerError`. It
    goes on in a thread that an exit of the process does not wait for, and what it returns is dropped. So a question
    changes nothing, and ends by itself where that is possible.

    :param limit_s: seconds, for all of them together.
    """
    answered: queue.SimpleQueue[tuple[str, T | Exception]] = queue.SimpleQueue()

    def ask(name: str, question: Callable[[], T]) -> None:
        try:
            answered.put((name, question()))
        except Exception as error:  # noqa: BLE001 - it is an answer: who asked decides what it means
            answered.put((name, error))

    until = time.monotonic() + limit_s
    for name, question in questions.items():
        threading.Thread(target=ask, args=(name, question), name=f"question to {name}", daemon=True).start()
    found: dict[str, T | Exception] = {}
    while len(found) < len(questions):
        try:
            name, answer = answered.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        found[name] = answer
    late = NoAnswerError(f"it has not answered within {limit_s:g} s")
    return {name: found.get(name, late) for name in questions}
