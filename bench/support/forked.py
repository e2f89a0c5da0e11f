"""Many processes that begin at the same moment, each with an answer."""

from __future__ import annotations

import multiprocessing
import queue
import signal
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.queues import Queue

T = TypeVar("T")

LIMIT = 900.0
"""Seconds after which those that have not answered have failed."""

# By fork: the children need nothing but what is imported already, and 32 of them are there in a moment.
_PROCESSES = multiprocessing.get_context("fork")


class ForkedError(Exception):
    """A process failed, or did not answer in time."""


def run_forked(tasks: Sequence[Callable[[Callable[[], None]], T]]) -> list[T]:
    """Run each task in a process of its own; return their answers, in no order.

    :param tasks: each is called with what waits until all of them have come as far.
    :raises ForkedError: one failed; the others are ended.
    """
    barrier = _PROCESSES.Barrier(len(tasks))
    answers: Queue[tuple[T | None, str]] = _PROCESSES.Queue()
    children = [
        _PROCESSES.Process(target=_run, args=(task, lambda: barrier.wait(LIMIT), answers), daemon=True)
        for task in tasks
    ]
    try:
        for child in children:
            child.start()
        return [_answer(answers) for _ in children]
    finally:
        for child in children:
            child.terminate()
            child.join()


def _run(
    task: Callable[[Callable[[], None]], T], meet: Callable[[], None], answers: Queue[tuple[T | None, str]]
) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # our parent ends us
    try:
        answers.put((task(meet), ""))
    except Exception as error:  # noqa: BLE001 - told by our parent
        answers.put((None, f"{type(error).__name__}: {error}"))


def _answer(answers: Queue[tuple[T | None, str]]) -> T:
    try:
        answer, failure = answers.get(timeout=LIMIT)
    except queue.Empty:
        raise ForkedError(f"not all answered in {LIMIT:.0f} s") from None
    if answer is None:
        raise ForkedError(failure)
    return answer
