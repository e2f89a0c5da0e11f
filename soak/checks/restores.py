"""Whether what was restored is what the source held then.

A restored database says by which turn of each lane it was made. Its tables must hold what follows from these turns, and
the turns must be those of the moment that was asked for: all that were known to be committed by then, and none whose
commit has a later time. The time of a full backup is the server's clock just before its snapshot, as documented. At
such a moment, what was committed until the backup ended may be there, too.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

from soak.checks.violation import Verdict
from soak.journal import named
from soak.lanes import MOST_COLUMNS, Lane

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


def snapshots_of(events: Sequence[Event]) -> dict[str, list[tuple[float, float]]]:
    """Return the times at which snapshots may have been taken, by source: from the moment that one names to its end.

    Of a backup that was not reported as done it is not known whether it took one, and when.
    """
    begun = {event["id"]: event["at"] for event in named(events, "begin")}
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for event in named(events, "end"):
        if not event["kind"].startswith("backup"):
            continue
        if event["code"] != 0:
            found[event["source"]].append((begun[event["id"]], event["at"]))
        elif event["result"]["kind"] != "changes":
            moment = datetime.fromisoformat(event["result"]["restorable_to"]).timestamp()
            found[event["source"]].append((moment, event["at"]))
    return found


def misplaced(
    recorded: Turns, source: str, reached: Mapping[int, int], asked: float, latest: float | None = None
) -> Iterator[str]:
    """Say which lanes are not where they must be at a moment, in seconds since 1970.

    :param latest: commits until then may be there, too; None: none that is later than the moment.
    """
    latest = asked if latest is None else latest
    for (named_source, lane), turns in recorded.items():
        if named_source != source:
            continue
        if lane not in reached:
            yield f"lane {lane} is missing"
            continue
        least = max((turn for turn, _, acked in turns if acked <= asked), default=0)
        most = min((turn for turn, committed, _ in turns if committed is not None and committed > latest), default=None)
        if reached[lane] < least:
            yield f"lane {lane} is at turn {reached[lane]}, and {least} had been committed"
        if most is not None and reached[lane] >= most:
            yield f"lane {lane} is at turn {reached[lane]}, and {most} was committed later"


def check(events: Sequence[Event], seed: int) -> list[Verdict]:
    """Judge each restore that ended well, and each answer to a query.

    :param seed: of the run, from which the truth follows.
    """
    content, moment = Verdict(CONTENT), Verdict(MOMENT)
    truth = (turns_of(events), snapshots_of(events))
    for event in named(events, "restored"):
        holds = not event["unequal"] or _has_another_schema(event, seed)
        content.judge(holds, f"restore {event['id']} of {event['source']}: {event['unequal']}")
        _judge_moment(moment, *truth, event, {int(lane): turn for lane, turn in event["turns"].items()})
    begun = {event["id"]: event for event in named(events, "begin")}
    for event in named(events, "end"):
        rows = event["result"].get("rows")
        if event["kind"] == "query" and event["code"] == 0 and isinstance(rows, list):
            reached = {int(row[0]): int(row[1]) for row in rows}
            _judge_moment(moment, *truth, {**event, "asked": begun[event["id"]]["moment"]}, reached)
    return [content, moment]


def _has_another_schema(event: Event, seed: int) -> bool:
    """Say whether all that differs is how many columns the tables have, where that may be.

    Between two backups it is not known when a definition was changed: a restore takes the earlier or the later one, and
    says so (docs/changes.md). The rows are compared all the same. At a backup's own moment the definition is known.
    """
    if event["point"] or event["asked"] is None:
        return False
    return all(
        any(
            asdict(Lane(seed, event["source"], int(lane)).expected(each["turn"], columns)) == each["found"]
            for columns in range(MOST_COLUMNS + 1)
        )
        for lane, each in event["unequal"].items()
    )


def _judge_moment(
    verdict: Verdict,
    recorded: Turns,
    snapshots: Mapping[str, list[tuple[float, float]]],
    event: Event,
    reached: Mapping[int, int],
) -> None:
    asked = event["asked"]
    if asked is None:
        verdict.passed_over += 1
        return
    latest = max((until for since, until in snapshots.get(event["source"], []) if since <= asked < until), default=None)
    wrong = list(misplaced(recorded, event["source"], reached, asked, latest))
    verdict.judge(not wrong, f"{event['id']} of {event['source']} at {asked}: {'; '.join(wrong)}")
