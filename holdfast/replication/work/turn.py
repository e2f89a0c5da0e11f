"""Turns: taking what only one may have at a time in the coordination store, and keeping it by a lease."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from holdfast.common.errors import BusyError, HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

POLL_S = 2.0
"""Between two looks whether it is free."""


def in_turn(
    take: Callable[[], T],
    *,
    wait: float,
    say: Callable[[str], None],
    meanwhile: Callable[[], object] = lambda: None,
) -> T:
    """Take something as soon as it is free.

    :param take: raises BusyError while another process has it, as this does once `wait` seconds are over.
    :param say: takes, once, the words that say who is waited for.
    :param meanwhile: is called before each further try.
    """
    until, said = time.monotonic() + wait, False
    while True:
        try:
            return take()
        except BusyError as busy:
            remaining = until - time.monotonic()
            if remaining <= 0:
                raise
            if not said:
                say(f"waiting: {busy}")
                said = True
        time.sleep(min(POLL_S, remaining))
        meanwhile()


@contextmanager
def renewing(renew: Callable[[], object], *, every: float, name: str) -> Iterator[None]:
    """Renew a lease in a thread while the block runs, every so many seconds.

    A renewal that fails is passed over: the append decides, since it asks who holds the lease.
    """
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(every):
            with suppress(HoldfastError):
                renew()

    renewer = threading.Thread(target=go_on, name=name, daemon=True)
    renewer.start()
    try:
        yield
    finally:
        ended.set()
        renewer.join()
