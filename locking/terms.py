"""Durations of locks: leases, grace and their consequences."""

from __future__ import annotations

import math
from dataclasses import dataclass

CLOCK_STEP = 1.0  # seconds: stores may round both their Date and an object's time down to whole seconds
LONGEST_DRAIN = 60.0  # seconds a writer keeps new readers out, at most, while those that hold the lock finish
MARKER_LIFE = 1200.0  # seconds a DEAD marker stays, at least; far longer than a request can be under way


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a lock, all in seconds.

    :param lease: how long a holder trusts its lock after the start of its last acknowledged renewal
    :param grace: how much longer others wait before they end it; covers requests that are under way and
        the rounding of the store's clock
    :param attempt: the lease of an intent, where it is shorter: a lock that is to last for hours must not
        be blocked for hours by a client that died while asking for it
    """

    lease: float = 120.0
    grace: float = 60.0
    attempt: float = 120.0

    def __post_init__(self) -> None:
        for name, value in (("lease", self.lease), ("grace", self.grace), ("attempt", self.attempt)):
            if not (math.isfinite(value) and value >= CLOCK_STEP):
                raise ValueError(f"A lock's {name} is {value} s; it must be at least {CLOCK_STEP:g} s.")

    @property
    def expiry(self) -> float:
        """Return the age at which every client may end a lock: lease and grace."""
        return self.lease + self.grace

    @property
    def attempt_lease(self) -> float:
        return min(self.lease, self.attempt)

    @property
    def attempt_expiry(self) -> float:
        """Return the age at which every client may end an intent."""
        return self.attempt_lease + self.grace

    @property
    def drain(self) -> float:
        """Return the time that an attempt spends looking again, with its intent kept."""
        return min(LONGEST_DRAIN, self.attempt_lease / 2)

    @property
    def budget(self) -> float:
        """Return the time an attempt may take, from its intent's PUT to its target's acknowledgement.

        It is longer than :attr:`drain`, and well below :attr:`attempt_expiry`, when others end the intent.
        """
        return self.attempt_lease * 3 / 4

    @property
    def renewal_interval(self) -> float:
        """Return the time between two renewals: two may fail before the lease is over."""
        return self.lease / 3
