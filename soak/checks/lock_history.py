"""Whether two locks that exclude each other were held at once, by what was asked of the store.

A lock is held for sure from the moment at which the answer to the request that wrote it came to its holder, and until
the first of these: the holder asks to delete it, or declares it dead; its lease is over, counted from the begin of the
last renewal whose answer came; its process has ended. Whoever else gets in within that time has broken the promise, and
so has who ends such a lock. Nothing of the locks' own code is used here: keys, bodies and times of requests say it all.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from soak.checks.violation import Verdict
from soak.journal import named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from soak.journal import Event

EXCLUSION = "locks that exclude each other are never held at once"
ENDING = "nobody ends a lock that its holder may rely on"

SLOW_S = 45.0
"""A lock whose attempt took longer may be given up by its holder when the answer comes: it is passed over."""

NOTICED_S = 2.0
"""Within this the end of a process is recorded."""

_NAME = re.compile(
    r"/(?P<archive>.+?)/locks/(?P<resource>[^/]+)/(?P<kind>INTENT\.|)(?P<word>WRIT|READ|DEAD)\.(?P<txn>\w+)"
)
_KEYS = re.compile(r"<Key>([^<]+)</Key>")


@dataclass
class Held:
    """A lock, as its requests tell.

    :param asked: when its intent was written; its answer is of no matter.
    :param taken: when the answer came that it was taken; None where none came.
    :param trusted: until when its holder may rely on it, unless it renews it.
    :param left: when its holder, or whoever acts for it, asked to delete it or declared it dead.
    :param ended_by_other: when another process declared it dead, and which one.
    """

    resource: str
    txn: str
    mode: str
    pid: int = 0
    lease: float = 0.0
    asked: float | None = None
    taken: float | None = None
    trusted: float = 0.0
    left: float = float("inf")
    ended_by_other: list[tuple[float, int]] = field(default_factory=list)

    def gone(self, ends: Mapping[int, Sequence[float]]) -> float | None:
        """Return when its process had ended; None where that is not known.

        :param ends: when each operation's process had ended, in their order: the system uses a number again.
        """
        return next((at for at in ends.get(self.pid, ()) if at >= (self.asked or 0.0)), None)

    def until(self, ends: Mapping[int, Sequence[float]]) -> float:
        """Return until when it was held for sure.

        :param ends: as of `gone`.
        """
        gone = self.gone(ends)
        if gone is not None:
            return min(self.left, self.trusted, gone - NOTICED_S)
        return min([self.left, self.trusted, *(at for at, _ in self.ended_by_other)])


def locks_of(requests: Iterable[Event]) -> list[Held]:
    """Return the locks that were taken, from the requests about them in the order of their begin."""
    found: dict[tuple[str, str], Held] = {}
    for request in requests:
        for path in _paths(request):
            name = _NAME.fullmatch(path)
            if name is None:
                continue
            resource = f"{name['archive']} {name['resource']}"
            held = found.setdefault((resource, name["txn"]), Held(resource, name["txn"], ""))
            _note(held, name["kind"], name["word"], request)
    return list(found.values())


def _paths(request: Event) -> Iterator[str]:
    if request["what"] == "lock request":
        yield request["path"]
    else:
        yield from (f"{request['path'].rstrip('/')}/{key}" for key in _KEYS.findall(request["body"]))


def _note(held: Held, kind: str, word: str, request: Event) -> None:
    method = request.get("method", "DELETE")
    if word == "DEAD":
        if method == "PUT":
            _end(held, request)
        return
    if method == "DELETE":
        if not kind:
            held.left = min(held.left, request["at"])
        return
    _describe(held, request)
    if kind:
        held.asked = held.asked or request["at"]
        return
    held.mode = word
    if request["fate"] or not 200 <= request["status"] < 300:
        return
    held.taken = held.taken or request["ended"]
    held.trusted = max(held.trusted, request["at"] + held.lease)


def _describe(held: Held, request: Event) -> None:
    with suppress(ValueError, KeyError):
        record: dict[str, Any] = json.loads(request["body"])
        held.pid = record["owner"]["pid"]
        held.lease = float(record["terms"]["lease"])


def _end(held: Held, request: Event) -> None:
    by = 0
    with suppress(ValueError, KeyError):
        by = json.loads(request["body"])["by"]["pid"]
    if by == held.pid:
        held.left = min(held.left, request["at"])
    else:
        held.ended_by_other.append((request["at"], by))


def check(events: Sequence[Event]) -> list[Verdict]:
    """Judge all locks of a run."""
    exclusion, ending = Verdict(EXCLUSION), Verdict(ENDING)
    ends: dict[int, list[float]] = defaultdict(list)
    for event in sorted(named(events, "end"), key=lambda event: float(event["at"])):
        ends[event["pid"]].append(event["at"])
    by_resource: dict[str, list[Held]] = defaultdict(list)
    for held in locks_of(named(events, "lock request", "locks deleted together")):
        if held.taken is None:
            continue
        if held.asked is None or held.taken - held.asked > SLOW_S:
            exclusion.passed_over += 1
            continue
        by_resource[held.resource].append(held)
        _judge_ending(ending, held, ends)
    for locks in by_resource.values():
        _judge_exclusion(exclusion, locks, ends)
    return [exclusion, ending]


def _judge_exclusion(verdict: Verdict, locks: list[Held], ends: Mapping[int, Sequence[float]]) -> None:
    locks.sort(key=lambda held: held.taken or 0.0)
    for number, held in enumerate(locks):
        until = held.until(ends)
        others = [other for other in locks[number + 1 :] if _meet(held, until, other, ends)]
        words = ", ".join(f"{each.mode} {each.txn} of process {each.pid} at {each.taken}" for each in others)
        verdict.judge(
            not others,
            f"{held.resource}: {held.mode} {held.txn} of process {held.pid} was held from {held.taken} to {until}, "
            f"and meanwhile were taken: {words}",
        )


def _meet(held: Held, until: float, other: Held, ends: Mapping[int, Sequence[float]]) -> bool:
    """Say whether two locks that exclude each other were held at once; the other one was taken later."""
    taken = other.taken or 0.0
    return "WRIT" in (held.mode, other.mode) and taken < until and taken < other.until(ends)


def _judge_ending(verdict: Verdict, held: Held, ends: Mapping[int, Sequence[float]]) -> None:
    """Judge whether others ended it too early; only of processes whose end is known."""
    if held.gone(ends) is None:
        verdict.passed_over += 1
        return
    early = [(at, by) for at, by in held.ended_by_other if at < held.until(ends)]
    verdict.judge(
        not early,
        f"{held.resource}: {held.mode} {held.txn} of process {held.pid} might be relied on until "
        f"{held.until(ends)}, and was ended: {early}",
    )
