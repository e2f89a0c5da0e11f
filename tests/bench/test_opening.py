"""The bench of opening measures what it says: archives with checkpoints, and with the blocks it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import opening
from bench.opening import Opening, Openings, as_markdown, make_archive, open_and_list
from holdfast.archive import Archive, State
from holdfast.archive.history import restore_points
from holdfast.storage import open_store


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "BLOCKS", 10)
    monkeypatch.setattr(opening, "TAIL", 3)


def test_an_archive_of_an_age_has_its_newest_blocks_and_all_of_them_can_be_restored(tmp_path: Path, few: None) -> None:
    make_archive(tmp_path / "a", 50, 200)
    archive = Archive.open(open_store(str(tmp_path / "a")))
    assert (archive.state.sequence, len(archive.state.blocks)) == (50, 10)
    assert sum(len(placed.block.files()) - 1 for placed in archive.state.blocks.values()) == 200
    (source,) = restore_points.describe(archive.state)["sources"]
    assert (len(source["intervals"]), source["gaps"]) == (1, [])
    assert archive.state == State.begun(2).after(archive.commits())
    assert len(list((tmp_path / "a" / "checkpoints").iterdir())) == 1
    assert open_and_list(str(tmp_path / "a")) > 0


def test_the_report_says_what_was_not_reached() -> None:
    slow = Openings([Opening(1, 5, (0.5, 0.6), 1.0), Opening(9, 5, (1.1, 1.2), 3.0)], {"Processor": "x"}, "today")
    assert len(slow.missed) == 2
    assert "**no**" in as_markdown(slow)
    assert Openings([Opening(1, 5, (0.5,), 1.0), Opening(9, 5, (0.6,), 3.0)], {}, "today").missed == []
