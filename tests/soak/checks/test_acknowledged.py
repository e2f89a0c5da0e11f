"""The judge of what was acknowledged finds a backup that is lost, and replicas that differ."""

from __future__ import annotations

from soak.checks.acknowledged import EQUAL, KEPT, Points, check, points_of
from soak.checks.violation import Verdict
from soak.journal import Event


def backup(number: int, at: float, *, code: int = 0) -> list[Event]:
    moment = f"2026-03-01T00:00:{number:02}+00:00"
    common = {"id": f"b{number}", "kind": "backup changes", "source": "shop"}
    return [
        {"what": "begin", "at": at, **common},
        {"what": "end", "at": at + 1, **common, "code": code, "result": {"restorable_to": moment}},
    ]


def truncation(at: float) -> Event:
    return {"what": "end", "at": at, "id": "t", "kind": "truncate", "code": 6, "result": {}}


def points(since: int, until: int) -> Points:
    told = {"from": f"2026-03-01T00:00:{since:02}+00:00", "to": f"2026-03-01T00:00:{until:02}+00:00"}
    return points_of({"sources": [{"source": "shop", "intervals": [told]}]})


def judged(events: list[Event], *, near: Points, far: Points | None = None) -> dict[str, Verdict]:
    replicas = {"near": near, "far": near if far is None else far}
    return {verdict.invariant: verdict for verdict in check(events, replicas, keeps=2)}


THREE = [*backup(1, 10), *backup(2, 20), *backup(3, 30)]


def test_what_is_there_is_right() -> None:
    found = judged(THREE, near=points(1, 3))
    assert (found[KEPT].looked, found[KEPT].violations, found[EQUAL].violations) == (6, [], [])


def test_a_backup_that_was_acknowledged_and_is_not_restorable_is_found() -> None:
    assert "b1 of shop, done, is not restorable at near" in judged(THREE, near=points(2, 3))[KEPT].violations[0].words
    assert judged(THREE, near=points(1, 3), far=points(1, 2))[KEPT].violations
    assert judged(THREE, near={})[KEPT].violations


def test_one_that_failed_need_not_be_there() -> None:
    assert judged([*THREE, *backup(9, 40, code=6)], near=points(1, 3))[KEPT].violations == []


def test_a_truncation_may_let_go_of_old_ones_and_of_no_others() -> None:
    found = judged([*THREE, truncation(50)], near=points(2, 3))
    assert (found[KEPT].violations, found[KEPT].passed_over) == ([], 2)
    assert judged([*THREE, truncation(50)], near=points(3, 3))[KEPT].violations
    assert judged([truncation(5), *THREE], near=points(2, 3))[KEPT].violations


def test_replicas_that_differ_are_found() -> None:
    found = judged([*THREE, truncation(50)], near=points(1, 3), far=points(2, 3))
    assert found[KEPT].violations == []
    assert "far has other restore points" in found[EQUAL].violations[0].words
