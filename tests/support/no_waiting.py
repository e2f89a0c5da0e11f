"""Tests that wait for nothing, where what they run would pause between two tries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest


def no_waiting(monkeypatch: pytest.MonkeyPatch, instead: Callable[[float], object] = lambda seconds: None) -> None:
    """Have this thread never sleep.

    The others do as before: py4j has one for each Spark that a process has started, which looks for work every second.
    Without its sleep it would leave no time to anybody else, and call `instead` millions of times.

    :param instead: what is done with the seconds, such as to note them.
    """
    tester, sleep = threading.get_ident(), time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: (instead if threading.get_ident() == tester else sleep)(seconds))
