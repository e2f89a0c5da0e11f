"""Who gives way to whom, for each pair of attempts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from locking.folder import FolderClaim
from locking.rules import Ruling, Verdict, View, reader_may_enter, writer_may_enter
from tests.support.locks.looks import claim, look, txn

OWN = 5
MINE = claim(OWN, "W", intent=0)

OTHERS: dict[str, FolderClaim] = {
    "a writer": claim(7, "W", target=0),
    "a writer with its intent": claim(7, "W", intent=0, target=0),
    "a writer's earlier attempt": claim(3, "W", intent=0),
    "a writer's later attempt": claim(7, "W", intent=0),
    "a reader": claim(3, "R", target=0),
    "a reader's attempt": claim(3, "R", intent=0),
}
AGAIN, CLEAR, WITHDRAW = Verdict.LOOK_AGAIN, Verdict.CLEAR, Verdict.WITHDRAW

WRITER = {
    "a writer": (WITHDRAW, WITHDRAW),
    "a writer with its intent": (WITHDRAW, WITHDRAW),
    "a writer's earlier attempt": (WITHDRAW, WITHDRAW),
    "a writer's later attempt": (WITHDRAW, AGAIN),
    "a reader": (AGAIN, AGAIN),
    "a reader's attempt": (AGAIN, AGAIN),
}
"""Before and after it has announced itself."""


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("announced", [False, True])
def test_a_writer_gives_way_to_those_before_it_and_waits_for_the_others(other: str, announced: bool) -> None:
    found = writer_may_enter(View(look(MINE, OTHERS[other]), txn(OWN), announced))
    assert found == Ruling(WRITER[other][announced], (OTHERS[other],))


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("announced", [False, True])
def test_a_reader_gives_way_to_any_writer_and_to_no_reader(other: str, announced: bool) -> None:
    found = reader_may_enter(View(look(claim(OWN, "R", intent=0), OTHERS[other]), txn(OWN), announced))
    assert found == (Ruling(CLEAR) if "reader" in other else Ruling(WITHDRAW, (OTHERS[other],)))


@pytest.mark.parametrize("rule", [writer_may_enter, reader_may_enter])
def test_nobody_else_is_nobody_in_the_way(rule: Callable[[View], Ruling]) -> None:
    ended = claim(7, "W", target=0)
    for seen in (look(), look(MINE), look(MINE, ended, dead={7: 0})):
        assert rule(View(seen, txn(OWN), announced=True)) == Ruling(CLEAR)


@pytest.mark.parametrize("rule", [writer_may_enter, reader_may_enter])
def test_an_object_that_is_not_ours_keeps_everybody_out(rule: Callable[[View], Ruling]) -> None:
    seen = look(MINE, foreign=1)
    assert rule(View(seen, txn(OWN), announced=True)) == Ruling(WITHDRAW, (), seen.foreign)


def test_only_those_that_cause_the_verdict_are_named() -> None:
    earlier, reader = claim(3, "W", intent=0), claim(4, "R", target=0)
    view = View(look(MINE, earlier, reader), txn(OWN), announced=True)
    assert view.others == [earlier, reader]
    assert writer_may_enter(view).blockers == (earlier,)
    assert reader_may_enter(view).blockers == (earlier,)
