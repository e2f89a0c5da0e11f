"""Turns of those who need what only one may have at a time in the coordination store."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from holdfast.common.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable

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

    :param take: raises BusyError while another process has it.
    :param wait: seconds; 0 tries once.
    :param say: takes, once, the words that say who is waited for.
    :param meanwhile: is called before each further try.
    :raises BusyError: another process has it still; names it.
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
