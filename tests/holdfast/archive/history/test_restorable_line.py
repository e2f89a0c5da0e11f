from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.archive import State
from holdfast.archive.format.block import Mark
from holdfast.archive.history import restorable_line
from holdfast.archive.history.restorable_line import RestorableLine
from tests.support.generator.trials import same_few, tiered


def test_backups_and_the_gaps_between_them_are_drawn_one_by_one_where_there_is_room(state: State) -> None:
    seen = RestorableLine(state, "shop_db").view()
    assert (seen["from"], seen["to"]) == (seen["first"], seen["last"])
    assert [(part["kind"], part["commit"]) for part in seen["parts"]] == [
        ("point", 1),
        ("gap", None),
        ("point", 2),
        ("gap", None),
        ("point", 3),
    ]
    assert seen["parts"][1]["reason"] == "no change backup joins these two full backups"
    assert (seen["parts"][1]["from"], seen["parts"][1]["to"]) == (seen["parts"][0]["to"], seen["parts"][2]["from"])


def test_what_is_narrower_than_a_part_is_counted_and_nothing_is_lost(state: State, noon: datetime) -> None:
    line = RestorableLine(state, "shop_db")
    [only] = line.view(noon - timedelta(days=3650), noon + timedelta(days=3650), parts=10)["parts"]
    assert (only["kind"], only["points"], only["gaps"], only["commit"]) == ("mixed", 3, 2, 3)


def test_a_stretch_is_cut_off_at_the_ends_of_the_view(state: State, noon: datetime) -> None:
    start, end = noon + timedelta(minutes=15), noon + timedelta(minutes=45)
    [gap] = RestorableLine(state, "shop_db").view(start, end)["parts"]
    assert gap["kind"] == "gap"
    assert datetime.fromisoformat(gap["from"]) == start
    assert datetime.fromisoformat(gap["to"]) == end


def test_outside_of_all_backups_there_is_nothing(state: State, noon: datetime) -> None:
    line = RestorableLine(state, "shop_db")
    assert line.view(noon - timedelta(days=2), noon - timedelta(days=1))["parts"] == []
    assert line.view(noon + timedelta(days=1), noon + timedelta(days=2))["parts"] == []


@same_few(tiered(33, 100))
@given(st.integers(1, 50), st.integers(0, 10_000), st.integers(1, 20_000))
def test_the_parts_never_exceed_what_was_asked_for_by_far_and_are_in_order(parts: int, before: int, after: int) -> None:
    noon = datetime.fromisoformat("2026-03-01T12:00:00Z")
    line = _many(noon)
    seen = line.view(noon - timedelta(minutes=before), noon + timedelta(minutes=after), parts=parts)["parts"]
    assert len(seen) <= 3 * parts + 1
    times = [(part["from"], part["to"]) for part in seen]
    assert times == sorted(times)
    assert all(start <= end for start, end in times)


def test_marks_that_stand_too_near_are_counted_with_the_one_before(
    state: State, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = {"a": noon, "b": noon + timedelta(seconds=1), "c": noon + timedelta(hours=1)}
    marks = {name: Mark(name=name, at=when, position="0/200") for name, when in at.items()}
    monkeypatch.setattr(restorable_line, "marks_of", lambda *_: marks)
    line = RestorableLine(state, "shop_db")
    assert [(each["name"], each["more"]) for each in line.view()["marks"]] == [("a", 1), ("c", 0)]
    near = line.view(noon, noon + timedelta(seconds=2))["marks"]
    assert [(each["name"], each["more"]) for each in near] == [("a", 0), ("b", 0)]


class _Range:
    """Stands in for a covered range, of which there are many."""

    def __init__(self, start: datetime, end: datetime, number: int) -> None:
        self.start, self.end, self.first, self.last = start, end, number, number + int(end > start)
        self.placed = type("Placed", (), {"number": number})
        self.chain = type("Chain", (), {"gap": "lost", "opened": ""})()
        self.whole = True


@cache
def _many(noon: datetime) -> RestorableLine:
    line = RestorableLine(State(), "shop_db")
    found = [_Range(noon + timedelta(minutes=7 * n), noon + timedelta(minutes=7 * n + n % 5), n) for n in range(2_000)]
    line.__dict__ |= {"ranges": tuple(found), "_marks": [], "_table_gaps": []}
    return line
