"""Whether what was restored is what the source held then.

A restored database says by which turn of each lane it was made. Its tables must hold what follows from these turns, and
the turns must be those of the moment that was asked for: all that were known to be committed by then, and none whose
commit has a later time.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from soak.checks.violation import Verdict
from soak.journal import named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from soak.journal import Event

CONTENT = "what is restored equals what the source held, row by row"
MOMENT = "what is restored has all that was committed by the moment, and nothing later"

Turns = dict[tuple[str, int], list[tuple[int, float | None, float]]]
"""By source and lane: turn, commit time (None where it is not known), and when it was known to be committed."""


def turns_of(events: Iterable[Event]) -> Turns:
    """Return the turns that were recorded."""
    found: Turns = defaultdict(list)
    for event in named(events, "turn"):
        committed = None if event["committed"] is None else float(event["committed"])
        found[event["source"], event["lane"]].append((event["turn"], committed, float(event["acked"])))
    return found


def misplaced(recorded: Turns, source: str, reached: Mapping[int, int], asked: float) -> Iterator[str]:
    """Say which lanes are not where they must be at a moment, in seconds since 1970."""
    for (named_source, lane), turns in recorded.items():
        if named_source != source:
            continue
        if lane not in reached:
            yield f"lane {lane} is missing"
            continue
        least = max((turn for turn, _, acked in turns if acked <= asked), default=0)
        most = min((turn for turn, committed, _ in turns if committed is not None and committed > asked), default=None)
        if reached[lane] < least:
            yield f"lane {lane} is at turn {reached[lane]}, and {least} had been committed"
        if most is not None and reached[lane] >= most:
            yield f"lane {lane} is at turn {reached[lane]}, and {most} was committed later"


def check(events: Sequence[Event]) -> list[Verdict]:
    """Judge each restore that ended well, and each answer to a query."""
    content, moment = Verdict(CONTENT), Verdict(MOMENT)
    recorded = turns_of(events)
    for event in named(events, "restored"):
        content.judge(not event["unequal"], f"restore {event['id']} of {event['source']}: {event['unequal']}")
        _judge_moment(moment, recorded, event, {int(lane): turn for lane, turn in event["turns"].items()})
    begun = {event["id"]: event for event in named(events, "begin")}
    for event in named(events, "end"):
        rows = event["result"].get("rows")
        if event["kind"] == "query" and event["code"] == 0 and isinstance(rows, list):
            reached = {int(row[0]): int(row[1]) for row in rows}
            _judge_moment(moment, recorded, {**event, "asked": begun[event["id"]]["moment"]}, reached)
    return [content, moment]


def _judge_moment(verdict: Verdict, recorded: Turns, event: Event, reached: Mapping[int, int]) -> None:
    if event["asked"] is None:
        verdict.passed_over += 1
        return
    wrong = list(misplaced(recorded, event["source"], reached, event["asked"]))
    verdict.judge(not wrong, f"{event['id']} of {event['source']} at {event['asked']}: {'; '.join(wrong)}")
