"""The judge of exit codes finds what it must find."""

from __future__ import annotations

import pytest

from soak.checks.exit_codes import CALM, DOCUMENTED, ENDS, SAID, calm_spans, check
from soak.checks.violation import Verdict, all_violations
from soak.journal import Event


def operation(code: int, *, kind: str = "backup full", words: str = "", at: float = 0.0) -> list[Event]:
    return [
        {"what": "begin", "at": at, "id": "a", "kind": kind, "pid": 7},
        {"what": "end", "at": at + 10, "id": "a", "kind": kind, "pid": 7, "code": code, "words": words},
    ]


def judged(*events: Event) -> dict[str, Verdict]:
    return {verdict.invariant: verdict for verdict in check(events)}


KILLED: Event = {"what": "killed", "at": 1.0, "id": "a", "command": True}
QUIET: tuple[Event, Event] = ({"what": "calm", "at": -1.0}, {"what": "storm", "at": 100.0})


@pytest.mark.parametrize("code", range(7))
def test_documented_codes_are_right_in_a_storm(code: int) -> None:
    assert all_violations(judged(*operation(code)).values()) == []


@pytest.mark.parametrize("code", [7, 134, 139, -9, -11])
def test_any_other_code_is_found(code: int) -> None:
    assert judged(*operation(code))[DOCUMENTED].violations


def test_a_signal_is_right_only_of_what_was_killed() -> None:
    assert judged(*operation(-9), KILLED)[DOCUMENTED].violations == []
    assert judged(*operation(-9), {**KILLED, "command": False})[DOCUMENTED].violations


def test_an_operation_without_an_end_is_found() -> None:
    assert judged(operation(0)[0])[ENDS].violations
    assert judged(*operation(1), {"what": "hung", "at": 5.0, "id": "a"})[ENDS].violations


def test_a_traceback_instead_of_a_sentence_is_found() -> None:
    assert judged(*operation(1, words="Traceback (most recent call last): …"))[SAID].violations
    assert judged(*operation(1, words="holdfast: unexpected KeyError: 'a'"))[SAID].violations
    assert judged(*operation(1, words="holdfast: the store does not answer"))[SAID].violations == []


def test_a_failure_in_calm_is_found_and_one_that_reaches_into_a_storm_is_not() -> None:
    assert judged(*operation(1), *QUIET)[CALM].violations
    assert judged(*operation(3), *QUIET)[CALM].violations == []
    assert judged(*operation(5, kind="restore"), *QUIET)[CALM].violations == []
    assert judged(*operation(5), *QUIET)[CALM].violations
    late = judged(*operation(1, at=95.0), *QUIET)
    assert (late[CALM].violations, late[CALM].looked) == ([], 0)


def test_what_names_a_replica_that_was_too_slow_is_not_judged_in_calm() -> None:
    slow = judged(*operation(1, words="far (s3://far/soak) does not answer: it has not answered within 10 s"), *QUIET)
    assert (slow[CALM].violations, slow[CALM].passed_over) == ([], 1)


def test_calm_is_between_its_begin_and_the_next_storm() -> None:
    events: list[Event] = [{"what": what, "at": at} for what, at in (("storm", 0.0), ("calm", 5.0), ("storm", 9.0))]
    assert calm_spans(events) == [(5.0, 9.0)]
    assert calm_spans([*events, {"what": "calm", "at": 20.0}]) == [(5.0, 9.0), (20.0, float("inf"))]
