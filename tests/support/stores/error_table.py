"""What the answers of an object store mean, as one table for all of them: each store names its own answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest

from holdfast.storage import StoreDenied, StoreError, StoreOutcomeUnknown, StoreUnavailable

Request = Callable[[Any], object]
"""Asks a store for something."""


class ErrorTable:
    """Tests of a store whose server fails as told; the fixtures `server` and `store` are those of its folder.

    :cvar refusals: answers after which a write has certainly done nothing, each with its error.
    :cvar doubts: answers after which nobody knows whether it has.
    :cvar busy: more answers after which a read asks again.
    :cvar denials: after which it does not; `advice`: words of their error.
    :cvar writes: those that are sent once whatever is answered; `doubtful_writes`: those that may have been done.
    :cvar read_attempts: how often a read asks.
    """

    refusals: ClassVar[Sequence[tuple[Any, type[StoreError]]]]
    doubts: ClassVar[Sequence[Any]]
    busy: ClassVar[Sequence[Any]]
    denials: ClassVar[Sequence[Any]]
    advice: ClassVar[str]
    writes: ClassVar[Sequence[Request]]
    doubtful_writes: ClassVar[Sequence[Request]]
    reads: ClassVar[Sequence[Request]]
    read_attempts: ClassVar[int] = 2

    @staticmethod
    def fail(server: Any, answer: Any) -> None:
        """Have each request answered so."""
        server.answer = answer

    @staticmethod
    def count(server: Any) -> int:
        """Return how many requests there were."""
        return int(server.count)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Ask each request for each answer."""
        values: dict[str, Sequence[Any]] = {
            "refusal": self.refusals,
            "doubt": self.doubts,
            "unanswered": [*self.doubts, *self.busy],
            "denial": self.denials,
            "write": self.writes,
            "doubtful_write": self.doubtful_writes,
            "read": self.reads,
        }
        for name, asked in values.items():  # in this order, in each of xdist's processes
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, asked)

    def test_a_write_that_the_server_refused_certainly_did_nothing(
        self, server: Any, store: Any, write: Request, refusal: tuple[Any, type[StoreError]]
    ) -> None:
        answer, error = refusal
        self.fail(server, answer)
        with pytest.raises(error) as caught:
            write(store)
        assert type(caught.value) is error
        assert self.count(server) == 1

    def test_a_write_without_a_clear_answer_is_unknown_and_never_sent_again(
        self, server: Any, store: Any, doubtful_write: Request, doubt: Any
    ) -> None:
        self.fail(server, doubt)
        with pytest.raises(StoreOutcomeUnknown, match="look before trying again"):
            doubtful_write(store)
        assert self.count(server) == 1

    @pytest.mark.slow
    def test_a_read_without_an_answer_is_tried_again_then_unavailable(
        self, server: Any, store: Any, read: Request, unanswered: Any
    ) -> None:
        self.fail(server, unanswered)
        with pytest.raises(StoreUnavailable):
            read(store)
        assert self.count(server) == self.read_attempts

    def test_a_read_that_is_denied_is_not_tried_again(
        self, server: Any, store: Any, read: Request, denial: Any
    ) -> None:
        self.fail(server, denial)
        with pytest.raises(StoreDenied, match=self.advice):
            read(store)
        assert self.count(server) == 1
