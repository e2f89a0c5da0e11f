"""Events are read in the order of their times, and a line that is being written is left out."""

from __future__ import annotations

from pathlib import Path

from soak.journal import Journal, named, read


def test_events_of_all_processes_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    first, second = Journal(tmp_path, "first"), Journal(tmp_path, "second")
    second.write("b", at=2.0)
    first.write("c", at=3.0, more=[1])
    first.write("a", at=1.0)
    assert [event["what"] for event in read(tmp_path)] == ["a", "b", "c"]
    assert [event["what"] for event in read(tmp_path, only="sec*")] == ["b"]
    assert named(read(tmp_path), "c") == [{"what": "c", "at": 3.0, "more": [1]}]


def test_half_a_line_is_left_out(tmp_path: Path) -> None:
    Journal(tmp_path, "first").write("a", at=1.0)
    with (tmp_path / "first.jsonl").open("a") as file:
        file.write('{"what": "b", "at"')
    assert [event["what"] for event in read(tmp_path)] == ["a"]
