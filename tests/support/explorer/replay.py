"""Running shipped code one answer at a time, without threads.

Code that asks nothing but its store and its clock is a function of the answers it got. So a client is kept as the
list of its answers; to see its next question it is run again from the beginning, answered from that list, and
abandoned where the list ends. A client can so be forked, forgotten and taken up at any point.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import cast

from holdfast.common.signing import Signing
from holdfast.storage.contract.object_store import StoredDocument
from locking.store import Listing, ObjectInfo, StoreError, check_listed

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Question:
    """What a client wants: a request to its store, or something of its machine.

    :param word: "list", "get", "put", "touch", "create", "delete"; "clock", "sleep"; "gone": is this process gone?
    """

    word: str
    key: str = ""
    body: bytes = b""

    def __str__(self) -> str:
        return f"{self.word} {self.key}".strip()


@dataclass(frozen=True, slots=True)
class Listed:
    """What a listing answered: key, body and second of every object, and the second it began."""

    objects: tuple[tuple[str, bytes, int], ...]
    now: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The request failed so."""

    error: type[StoreError]


Answer = int | bytes | bool | Listed | Failed | None


class Unanswered(BaseException):
    """The answers end here. Not an Exception, so that a client takes it for its own end, as a kill would be."""


class Answers:
    """Gives the recorded answers in order; remembers the first question that has none."""

    def __init__(self, recorded: Sequence[Answer], ask: Callable[[Question], Answer] | None = None) -> None:
        self._recorded = recorded
        self._position = 0
        self._ask = ask
        self.open: Question | None = None

    def __call__(self, question: Question) -> Answer:
        if self._ask is not None:
            return self._settle(question, self._ask(question))
        if self.open is not None or self._position == len(self._recorded):
            self.open = self.open or question
            raise Unanswered
        self._position += 1
        return self._settle(question, self._recorded[self._position - 1])

    @staticmethod
    def _settle(question: Question, answer: Answer) -> Answer:
        if isinstance(answer, Failed):
            raise answer.error(f"{question} failed")
        return answer


class AskingClock:
    """A :class:`locking.runtime.Clock` whose every reading is a question: time may pass before any of them."""

    def __init__(self, ask: Answers) -> None:
        self._ask = ask

    def monotonic(self) -> float:
        return cast(int, self._ask(Question("clock")))

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            self._ask(Question("sleep"))


class StandingClock(AskingClock):
    """A clock that does not see time pass."""

    def monotonic(self) -> float:
        return 0.0


class AskingStore:
    """What the locks and the archive need of a store; every request is a question."""

    url = "memory://explored"
    endpoint = ""
    signing = Signing()

    def __init__(self, ask: Answers, *, listing_is_ordered: bool = True) -> None:
        self._ask = ask
        self.listing_is_ordered = listing_is_ordered

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        listed = cast(Listed, self._ask(Question("list", prefix)))
        check_listed(prefix, len(listed.objects), most)
        return _listing(tuple(each for each in listed.objects if each[0] > start_after), listed.now)

    def get(self, key: str) -> bytes:
        return cast(bytes, self._ask(Question("get", key)))

    def read(self, key: str) -> StoredDocument:
        body = self.get(key)
        return StoredDocument(body, body)

    def put(self, key: str, body: bytes) -> None:
        self._ask(Question("put", key, body))

    def touch(self, key: str, body: bytes) -> None:
        self._ask(Question("touch", key, body))

    def create(self, key: str, body: bytes) -> None:
        self._ask(Question("create", key, body))

    def delete(self, key: str) -> None:
        self._ask(Question("delete", key))


@lru_cache(maxsize=100_000)
def _listing(objects: builtins.tuple[builtins.tuple[str, bytes, int], ...], now: int) -> Listing:
    return Listing(
        tuple(
            ObjectInfo(key=key, size=len(body), modified=START + timedelta(seconds=second), etag="")
            for key, body, second in objects
        ),
        START + timedelta(seconds=now),
    )
