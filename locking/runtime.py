"""Surroundings of a lock: time, chance and names.

They can be replaced, so that a test can decide every step.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    """The holder's own clock."""

    def monotonic(self) -> float:
        """Return the seconds since some start.

        They never go back, and count the time a machine is suspended.
        """
        ...

    def sleep(self, seconds: float) -> None:
        """Let this much time pass."""
        ...


class SystemClock:
    """The machine's clock since boot.

    ``time.monotonic`` stops while a Linux machine is suspended.
    """

    _SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def monotonic(self) -> float:
        return time.clock_gettime(self._SINCE_BOOT)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def _new_txn() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Clock, jitter and transaction ids.

    :param jitter: the next number, at least 0 and below 1
    :param new_txn: a new id of 32 lower-case hexadecimal digits, never given before
    """

    clock: Clock = field(default_factory=SystemClock)
    jitter: Callable[[], float] = random.random
    new_txn: Callable[[], str] = _new_txn


SYSTEM = Runtime()
