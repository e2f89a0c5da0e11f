"""Patience of a store's clients: how long a request may take, and how often one that may be repeated is tried."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits of one request."""

    connect_s: float  # seconds to wait for a connection
    read_s: float  # seconds to wait for the next bytes of an answer
    attempts: int  # how often a request that changes nothing is tried


USUAL = Patience(connect_s=5.0, read_s=30.0, attempts=4)

SHORT = Patience(connect_s=4.0, read_s=6.0, attempts=3)
"""For a look whose caller can do without the answer.

The caller stops waiting by a clock of its own. So a request ends soon after that by itself; one that a busy server has
refused is repeated within that time.
"""
