"""The judge of restores finds what it must find."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

import pytest

from soak.checks.restores import CONTENT, MOMENT, check
from soak.checks.violation import Verdict, all_violations
from soak.journal import Event
from soak.lanes import Lane

SEED = 7

TURNS: list[Event] = [
    {"what": "turn", "at": 0.0, "source": "shop", "lane": lane, "turn": turn, "committed": str(float(turn)),
     "acked": turn + 0.1}
    for lane in (0, 1) for turn in range(1, 11)
]  # fmt: skip


def restored(first: int, second: int, *, asked: float = 5.5, unequal: object = None) -> dict[str, Verdict]:
    event: Event = {
        "what": "restored", "at": 99.0, "id": "r", "source": "shop", "turns": {"0": first, "1": second},
        "unequal": unequal or {}, "asked": asked, "point": "",
    }  # fmt: skip
    return {verdict.invariant: verdict for verdict in check([*TURNS, event], SEED)}


def test_a_restore_to_the_moment_is_right() -> None:
    found = restored(5, 5)
    assert all_violations(found.values()) == []
    assert found[MOMENT].looked == 1


def test_a_turn_that_was_committed_and_is_not_there_is_found() -> None:
    assert "lane 1 is at turn 4, and 5 had been committed" in restored(5, 4)[MOMENT].violations[0].words


def test_a_turn_of_later_is_found() -> None:
    assert "lane 0 is at turn 6, and 6 was committed later" in restored(6, 5)[MOMENT].violations[0].words


def test_a_turn_whose_answer_came_after_the_moment_may_be_there_or_not() -> None:
    assert restored(5, 5, asked=5.05)[MOMENT].violations == []
    assert restored(4, 5, asked=5.05)[MOMENT].violations == []


def full(kind: str, *, code: int = 0) -> list[Event]:
    common = {"id": "b", "kind": "backup full", "source": "shop"}
    moment = datetime.fromtimestamp(5.5, UTC).isoformat()
    return [
        {"what": "begin", "at": 5.0, **common},
        {"what": "end", "at": 7.5, **common, "code": code, "result": {"kind": kind, "restorable_to": moment}},
    ]


@pytest.mark.parametrize(("events", "holds"), [
    (full("full"), True), (full("changes"), False), (full("changes", code=6), True),
])  # fmt: skip
def test_at_the_time_of_a_full_backup_what_came_until_its_end_may_be_there(events: list[Event], holds: bool) -> None:
    event: Event = {
        "what": "restored", "at": 99.0, "id": "r", "source": "shop", "turns": {"0": 6, "1": 5}, "unequal": {},
        "asked": 5.5, "point": "",
    }  # fmt: skip
    assert (all_violations(check([*TURNS, *events, event], SEED)) == []) is holds
    assert all_violations(check([*TURNS, *events, {**event, "turns": {"0": 8, "1": 5}}], SEED))
    assert all_violations(check([*TURNS, *events, {**event, "turns": {"0": 4, "1": 5}}], SEED))


def test_rows_that_are_not_the_turns_are_found() -> None:
    wrong = {"0": {"turn": 5, "expected": {"rows": 3}, "found": {"rows": 2}}}
    assert restored(5, 5, unequal=wrong)[CONTENT].violations


@pytest.mark.parametrize(("point", "turn", "holds"), [("", 5, True), ("b", 5, False), ("", 4, False)])
def test_between_two_backups_the_definition_may_be_another_and_the_rows_may_not(
    point: str, turn: int, holds: bool
) -> None:
    lane = Lane(SEED, "shop", 0)
    found = asdict(lane.expected(turn, columns=2))
    event: Event = {
        "what": "restored", "at": 99.0, "id": "r", "source": "shop", "turns": {"0": 5, "1": 5}, "asked": 5.5,
        "point": point, "unequal": {"0": {"turn": 5, "expected": asdict(lane.expected(5)), "found": found}},
    }  # fmt: skip
    assert (all_violations(check([*TURNS, event], SEED)) == []) is holds


def test_a_lane_that_is_missing_is_found() -> None:
    event: Event = {
        "what": "restored", "at": 99.0, "id": "r", "source": "shop", "turns": {"0": 5}, "unequal": {}, "asked": 5.5,
        "point": "",
    }  # fmt: skip
    assert any("lane 1 is missing" in each.words for each in all_violations(check([*TURNS, event], SEED)))


def test_an_answer_to_a_query_is_judged_as_a_restore_is() -> None:
    begin: Event = {"what": "begin", "at": 20.0, "id": "q", "kind": "query", "moment": 5.5, "source": "shop"}
    end: Event = {"what": "end", "at": 21.0, "id": "q", "kind": "query", "code": 0, "source": "shop"}
    right = check([*TURNS, begin, {**end, "result": {"rows": [[0, 5], [1, 5]]}}], SEED)
    wrong = check([*TURNS, begin, {**end, "result": {"rows": [[0, 5], [1, 3]]}}], SEED)
    assert (all_violations(right), right[1].looked) == ([], 1)
    assert all_violations(wrong)
