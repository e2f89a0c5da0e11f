"""Requests to a store that fail, in place of a process that is killed at one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.storage.contract.object_store import StoreFull
from locking.store import StoreError, StoreOutcomeUnknown
from tests.support.jobs.steps import Steps, When

FULL = StoreFull("No room left to write 'it' (No space left on device): free some and try again.")
UNKNOWN = StoreOutcomeUnknown("no answer to writing 'it': it may or may not have happened")


class Failing(Steps):
    """Fails one of the requests that change something, in place of killing the process.

    :param at: the number of that request, from 1.
    :param when: before it is done, or after: then only its answer is lost.
    :param named: only requests with this in their name are counted.
    :param times: so many of them fail, one after the other.
    """

    def __init__(self, at: int, when: When, error: StoreError, *, named: str = "", times: int = 1) -> None:
        super().__init__(0, when, lambda name: None)
        self.requests: list[str] = []
        self._failing = at
        self._fails = when
        self._error = error
        self._wanted = named
        self._times = times

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        changes = not name.startswith(("list ", "head ", "get ", "read ")) and self._wanted in name
        if changes:
            self.requests.append(name)
        mine = changes and 0 <= len(self.requests) - self._failing < self._times
        if mine and self._fails == "before":
            raise self._error
        yield
        if mine:
            raise self._error
