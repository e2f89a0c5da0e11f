"""From what the workers saw to operations on locks, and whether some order of these explains all of it.

A lock as an object is simple: ``acquire`` needs everybody out whom it excludes, then its transaction is inside until
its ``end``. Each operation takes effect at one moment of an interval; porcupine looks for the moments. The intervals
say what the protocol promises, and no more:

- **acquire**: between the attempt's first request and the call's return. The last look shows nobody in the way who
  counts, everybody after it sees our intent or target, and the fence rules out that the intent was ended meanwhile.
- **held**: a ``check()`` that succeeds promises that the lock was held at its *second* look at the clock. Its listing
  shows that nobody had ended it when the listing began; the second look shows that the lease, counted from the start
  of the last acknowledged renewal, is not over, and until then nobody may end it. (Who ends a lock on purpose may at
  any time: then only the listing's begin is promised. No worker does that.)
- **lost**: a ``check()`` that raised ``LockLost`` promises that the lock was not held at its return, or ever after.
- **end**: a lock ends when its holder calls for its release, when its process is gone (if others can see that), or
  when its lease is over, and never before: a lease counts from the start of the attempt or of the last acknowledged
  renewal, at least, and lasts as long as checks succeed. Nothing is promised about when after that, and an earlier end
  is never in anybody's way, so the first moment possible stands for all.

An attempt that failed, or whose process was killed before it returned, promises nothing: it may have had an effect or
not, and nobody has ever relied on it. It is no operation. Nor is a ``LockBusy``: a lock may be refused for any reason.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.support.missing import MissingError
from tests.support.hammer.worker import nanoseconds

_CHECKER = Path(__file__).resolve().parents[3] / ".work" / "bin" / "check-history"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Something that took effect at one moment between ``call`` and ``returned`` (nanoseconds, both included)."""

    resource: str
    txn: str
    mode: str
    kind: str
    call: int
    returned: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the checker says.

    :param result: ``Ok``, ``Illegal``, or ``Unknown`` where the time was not enough
    :param seconds: how long it searched
    :param words: what is wrong
    """

    result: str
    operations: int
    resources: int
    seconds: float
    words: str


@dataclass(slots=True)
class _Transaction:
    resource: str
    mode: str
    attempt: int
    acquired: int | None = None
    held: list[int] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)
    renewed: int = 0
    release: int | None = None

    def operations(self, txn: str, lease: int, gone: int | None) -> Iterator[Operation]:
        """:param gone: when the others may first have seen that its process was gone"""
        if self.acquired is None:
            return
        ends = [max(self.attempt, self.renewed) + lease, self.release, gone]
        end = max(min(each for each in ends if each is not None), *self.held, 0)
        spans = [("acquire", self.attempt, self.acquired), ("end", end, max(end, self.acquired))]
        spans += [("held", at, at) for at in self.held]
        spans += [("lost", since, at) for since, at in self.lost]
        for kind, call, returned in spans:
            yield Operation(resource=self.resource, txn=txn, mode=self.mode, kind=kind, call=call, returned=returned)


def read_history(folder: Path) -> list[list[dict[str, Any]]]:
    """The observations of each worker."""
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in sorted(folder.glob("*.jsonl"))]


def operations(history: Iterable[Iterable[dict[str, Any]]], lease: float) -> list[Operation]:
    """What happened to the locks, as far as the workers saw it; ``lease`` in seconds."""
    return [each for events in history for each in _operations(events, nanoseconds(lease))]


def _operations(events: Iterable[dict[str, Any]], lease: int) -> Iterator[Operation]:
    found: dict[str, _Transaction] = {}
    elsewhere, gone = False, None
    for event in events:
        what, at = event["what"], event["at"]
        if what == "start":
            elsewhere = event["elsewhere"]
        elif what == "gone":
            gone = None if elsewhere else at
        elif what == "attempt":
            found[event["txn"]] = _Transaction(event["resource"], event["mode"], at)
        else:
            _note(found[event["txn"]], event)
    for txn, transaction in found.items():
        yield from transaction.operations(txn, lease, gone)


def _note(transaction: _Transaction, event: dict[str, Any]) -> None:
    match event["what"]:
        case "acquired":
            transaction.acquired = event["at"]
        case "held":
            transaction.held.append(event["at"])
        case "lost":
            transaction.lost.append((event["since"], event["at"]))
        case "renewed":
            transaction.renewed = event["at"]
        case "release":
            transaction.release = event["at"]
        case _:
            raise ValueError(f"A worker wrote what nobody knows: {event}")


def check(history: list[Operation], *, limit: float = 60.0) -> Verdict:
    """Whether some order of the operations explains them all; ``limit`` in seconds."""
    if not os.access(_CHECKER, os.X_OK):
        raise MissingError("porcupine", f"There is no checker at {_CHECKER}: `make setup-tests` builds it.")
    done = subprocess.run(
        [_CHECKER, "-timeout", f"{limit}s"],
        input="".join(f"{each.to_json()}\n" for each in history),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in {0, 1}:
        raise ValueError(f"The checker could not read the history: {done.stderr}")
    said = json.loads(done.stdout)
    return Verdict(
        result=said["result"],
        operations=said["operations"],
        resources=said["resources"],
        seconds=said["seconds"],
        words=_words(said, history),
    )


def _words(said: dict[str, Any], history: list[Operation]) -> str:
    """What is wrong, and all that is known of the transactions it concerns."""
    if said["result"] == "Ok":
        return ""
    if said["result"] == "Unknown":
        return f"The time was not enough to search the history of {said['resource']}."
    stuck, holders = said["stuck"], said.get("holders", [])
    inside = ", ".join(holders) or "nobody"
    lines = [
        f"{said['resource']}: {stuck['kind']} by {stuck['txn']} ({stuck['mode']}) has no place in any order: "
        f"{inside} is inside. Seconds since its call, which took {_seconds(stuck['returned'] - stuck['call'])}:"
    ]
    for each in sorted(history, key=lambda each: each.call):
        if each.txn in {stuck["txn"], *holders} and each.resource == said["resource"]:
            span = f"{_seconds(each.call - stuck['call'])} to {_seconds(each.returned - stuck['call'])}"
            lines.append(f"  {each.txn} {each.mode} {each.kind:8} {span}")
    return "\n".join(lines)


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:+.6f}"
