"""The judge of locks finds what it must find, in histories of requests that are made up."""

from __future__ import annotations

import json

import pytest

from soak.checks.lock_history import ENDING, EXCLUSION, check
from soak.checks.violation import Verdict, all_violations
from soak.journal import Event

LEASE_S = 120.0


def request(
    at: float, method: str, name: str, *, pid: int = 1, by: int = 0, fate: str = "", status: int = 200
) -> Event:
    body: dict[str, object] = {"owner": {"pid": pid}, "terms": {"lease": LEASE_S, "grace": 60.0}}
    if by:
        body = {"by": {"pid": by}}
    return {
        "what": "lock request", "at": at, "method": method, "path": f"/near/soak/locks/{name}", "status": 200,
        "ended": at + 0.5, "fate": fate, "body": json.dumps(body) if method == "PUT" else "",
    }  # fmt: skip


def taken(at: float, txn: str, *, word: str = "WRIT", pid: int = 1, resource: str = "history") -> list[Event]:
    return [
        request(at, "PUT", f"{resource}/INTENT.{word}.{txn}", pid=pid),
        request(at + 1, "PUT", f"{resource}/{word}.{txn}", pid=pid),
        request(at + 2, "DELETE", f"{resource}/INTENT.{word}.{txn}"),
    ]


def released(at: float, txn: str, *, word: str = "WRIT", resource: str = "history") -> Event:
    return request(at, "DELETE", f"{resource}/{word}.{txn}")


def ended(at: float, pid: int) -> Event:
    return {"what": "end", "at": at, "pid": pid}


def judged(*events: Event | list[Event]) -> dict[str, Verdict]:
    flat = [each for event in events for each in (event if isinstance(event, list) else [event])]
    return {verdict.invariant: verdict for verdict in check(sorted(flat, key=lambda event: event["at"]))}


def test_locks_one_after_the_other_are_right() -> None:
    found = judged(taken(0, "a"), released(10, "a"), taken(11, "b", pid=2), released(20, "b"))
    assert all_violations(found.values()) == []
    assert found[EXCLUSION].looked == 2


@pytest.mark.parametrize(("first", "second"), [("WRIT", "WRIT"), ("WRIT", "READ"), ("READ", "WRIT")])
def test_two_that_exclude_each_other_at_once_are_found(first: str, second: str) -> None:
    found = judged(
        taken(0, "a", word=first), taken(5, "b", word=second, pid=2), released(10, "a", word=first), released(12, "b")
    )
    assert "was held from 1.5 to 10, and meanwhile were taken" in found[EXCLUSION].violations[0].words


def test_two_readers_and_locks_of_two_resources_meet() -> None:
    found = judged(taken(0, "a", word="READ"), taken(5, "b", word="READ", pid=2), taken(6, "c", resource="replica"))
    assert all_violations(found.values()) == []
    assert found[EXCLUSION].looked == 3


def test_a_lease_that_is_over_protects_no_more_and_a_renewal_prolongs_it() -> None:
    later = taken(125, "b", pid=2)
    assert all_violations(judged(taken(0, "a"), later).values()) == []
    renewal = request(60, "PUT", "history/WRIT.a")
    assert judged(taken(0, "a"), renewal, later)[EXCLUSION].violations
    unheard = request(60, "PUT", "history/WRIT.a", fate="lost")
    assert all_violations(judged(taken(0, "a"), unheard, later).values()) == []


def test_a_lock_whose_answer_was_lost_was_never_held() -> None:
    lost = [request(0, "PUT", "history/INTENT.WRIT.a"), request(1, "PUT", "history/WRIT.a", fate="lost")]
    assert all_violations(judged(lost, taken(5, "b", pid=2)).values()) == []


def test_a_lock_goes_with_its_process() -> None:
    assert all_violations(judged(taken(0, "a"), ended(5, 1), taken(6, "b", pid=2)).values()) == []
    assert judged(taken(0, "a"), ended(50, 1), taken(6, "b", pid=2))[EXCLUSION].violations


def test_whoever_ends_the_lock_of_a_living_process_is_found() -> None:
    dead = request(20, "PUT", "history/DEAD.a", by=2)
    found = judged(taken(0, "a"), dead, ended(60, 1))
    assert "and was ended: [(20, 2)]" in found[ENDING].violations[0].words
    assert judged(taken(0, "a"), dead, ended(20.5, 1))[ENDING].violations == []
    own = request(20, "PUT", "history/DEAD.a", by=1)
    assert judged(taken(0, "a"), own, ended(60, 1))[ENDING].violations == []


def test_the_number_of_a_process_is_used_again() -> None:
    dead = request(20, "PUT", "history/DEAD.a", by=2)
    again = [*taken(100, "c"), ended(200, 1)]
    assert all_violations(judged(taken(0, "a"), ended(10, 1), dead, again).values()) == []
    early = request(110, "PUT", "history/DEAD.c", by=2)
    assert judged(taken(0, "a"), ended(10, 1), dead, again, early)[ENDING].violations


def test_what_took_too_long_to_be_judged_is_counted() -> None:
    slow = [request(0, "PUT", "history/INTENT.WRIT.a"), request(50, "PUT", "history/WRIT.a")]
    found = judged(slow, taken(55, "b", pid=2))
    assert (found[EXCLUSION].passed_over, found[EXCLUSION].violations) == (1, [])


def test_locks_that_are_deleted_together_are_released() -> None:
    together: Event = {
        "what": "locks deleted together", "at": 3.0, "path": "/near",
        "body": "<Delete><Object><Key>soak/locks/history/WRIT.a</Key></Object></Delete>",
    }  # fmt: skip
    assert all_violations(judged(taken(0, "a"), together, taken(5, "b", pid=2)).values()) == []
