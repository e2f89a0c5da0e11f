"""Whether a backup that was reported as done can be restored, at every replica, until truncations let go of it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from soak.checks.violation import Verdict
from soak.journal import named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from soak.journal import Event

KEPT = "a backup reported as done is restorable to its restorable_to, at every replica"
EQUAL = "all replicas have the same restore points in the end"

Points = dict[str, list[tuple[float, float]]]
"""By source, the intervals that can be restored, in seconds since 1970."""


def points_of(result: Mapping[str, Any]) -> Points:
    """Read the JSON that `holdfast points` prints."""
    return {
        source["source"]: [(_seconds(each["from"]), _seconds(each["to"])) for each in source["intervals"]]
        for source in result.get("sources", ())
    }


def may_be_gone(backup: Event, events: Sequence[Event], keeps: int) -> bool:
    """Say whether a truncation may have let go of a backup: one that ended after it, with so many newer ones begun."""
    begun = {event["id"]: event for event in named(events, "begin")}
    truncations = [
        event["at"]
        for event in named(events, "end")
        if event["kind"].startswith("truncate") and event["at"] > backup["at"]
    ]
    if not truncations:
        return False
    last = max(truncations)
    newer = [
        event
        for event in begun.values()
        if event["kind"].startswith("backup")
        and event["source"] == backup["source"]
        and begun[backup["id"]]["at"] < event["at"] < last
    ]
    return len(newer) >= keeps


def check(events: Sequence[Event], replicas: Mapping[str, Points], *, keeps: int) -> list[Verdict]:
    """Judge each acknowledged backup by what each replica tells in the end.

    :param replicas: what each of them can restore.
    :param keeps: restore points that each truncation leaves.
    """
    kept, equal = Verdict(KEPT), Verdict(EQUAL)
    for event in named(events, "end"):
        if not event["kind"].startswith("backup") or event["code"] != 0:
            continue
        moment = _seconds(event["result"]["restorable_to"])
        gone = may_be_gone(event, events, keeps)
        for name, points in replicas.items():
            there = any(since <= moment <= until for since, until in points.get(event["source"], []))
            if not there and gone:
                kept.passed_over += 1
                continue
            kept.judge(there, f"{event['id']} of {event['source']}, done, is not restorable at {name}: {moment}")
    first = next(iter(replicas.values()), {})
    for name, points in replicas.items():
        equal.judge(points == first, f"{name} has other restore points: {points} instead of {first}")
    return [kept, equal]


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
