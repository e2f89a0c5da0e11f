"""The bench of opening measures what it says, and reports what was not reached."""

from __future__ import annotations

from pathlib import Path

from bench.opening import Opening, Openings, as_markdown, open_and_list
from bench.support.grown_archive import Shape, make_archive


def test_opening_and_listing_take_some_time(tmp_path: Path) -> None:
    make_archive(tmp_path / "a", Shape(commits=5, blocks=5, files=5, tail=1))
    assert open_and_list(str(tmp_path / "a")) > 0


def test_the_report_says_what_was_not_reached() -> None:
    slow = Openings([Opening(1, 5, (0.5, 0.6), 1.0), Opening(9, 5, (1.1, 1.2), 3.0)], {"Processor": "x"}, "today")
    assert len(slow.missed) == 2
    assert "**no**" in as_markdown(slow)
    assert Openings([Opening(1, 5, (0.5,), 1.0), Opening(9, 5, (0.6,), 3.0)], {}, "today").missed == []
