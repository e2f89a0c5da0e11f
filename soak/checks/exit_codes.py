"""Whether operations end as the documentation says, and well where nothing was wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soak.checks.violation import Verdict
from soak.journal import named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soak.journal import Event

DOCUMENTED = "every exit code is one of the documented"
CALM = "where nothing is wrong, operations end well, are busy, or refuse by name"
ENDS = "every operation ends"
SAID = "a failure says a sentence, and no traceback"

CODES = frozenset(range(7))
"""README: done, failed, wrong usage, busy, damaged, refused, unknown."""

BUSY = 3

REFUSALS: dict[str, frozenset[int]] = {
    "restore": frozenset({5}),
    "query": frozenset({5}),
    "hold add": frozenset({5}),
    "drill": frozenset({5}),
}
"""What may also be said in calm: a moment that this replica does not have yet, or any more."""

_NO_SENTENCE = ("Traceback (most recent call last)", "holdfast: unexpected ")

_TOO_SLOW = ("has not answered", "cannot be read now")
"""What names a replica that did not answer in time: on a busy machine that happens without a fault, too."""


def check(events: Sequence[Event]) -> list[Verdict]:
    """Judge the end of each operation."""
    documented, calm, ends, said = Verdict(DOCUMENTED), Verdict(CALM), Verdict(ENDS), Verdict(SAID)
    spans = calm_spans(events)
    begun = {event["id"]: event for event in named(events, "begin")}
    killed = {event["id"] for event in named(events, "killed") if event["command"]}
    done = {event["id"]: event for event in named(events, "end")}
    hung = {event["id"] for event in named(events, "hung")}
    for identity, begin in begun.items():
        end = done.get(identity)
        ends.judge(end is not None and identity not in hung, f"{identity} ({begin['kind']}) did not end")
        if end is None:
            continue
        code = end["code"]
        documented.judge(
            code in CODES or (identity in killed and code < 0), f"{identity} ({begin['kind']}) ended with {code}"
        )
        if code not in (0, BUSY):
            said.judge(
                not any(each in end["words"] for each in _NO_SENTENCE),
                f"{identity} ({begin['kind']}): {end['words'][-300:]}",
            )
        if any(since <= begin["at"] and end["at"] <= until for since, until in spans) and identity not in killed:
            _judge_calm(calm, begin, end)
    return [documented, calm, ends, said]


def _judge_calm(verdict: Verdict, begin: Event, end: Event) -> None:
    """Judge an operation that began and ended while nothing was wrong."""
    fine = {0, BUSY} | REFUSALS.get(begin["kind"], frozenset())
    if end["code"] not in fine and any(each in end["words"] for each in _TOO_SLOW):
        verdict.passed_over += 1
        return
    words = f"{begin['id']} ({begin['kind']}) ended with {end['code']}: {end['words'][-300:]}"
    verdict.judge(end["code"] in fine, words)


def calm_spans(events: Sequence[Event]) -> list[tuple[float, float]]:
    """Return the times without a fault, each with its begin and its end; a run ends with one."""
    found, since = [], None
    for event in named(events, "calm", "storm"):
        if event["what"] == "calm":
            since = event["at"]
        elif since is not None:
            found.append((since, event["at"]))
            since = None
    return found if since is None else [*found, (since, float("inf"))]
