"""Tests that wait for nothing, where what they run would pause between two tries."""

from __future__ import annotations

import threading
import time

import pytest


def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this thread never sleep.

    The others do as before: py4j has one for each Spark that a process has started, which looks for work every second,
    and without its sleep would leave no time to anybody else.
    """
    tester, sleep = threading.get_ident(), time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: None if threading.get_ident() == tester else sleep(seconds))
