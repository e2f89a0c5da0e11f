"""Archives of any age and size are what they say: checkpoints, blocks, files, and all can be restored."""

from __future__ import annotations

from pathlib import Path

from bench.support.grown_archive import Shape, make_archive
from holdfast.archive import Archive, State
from holdfast.archive.history import restore_points
from holdfast.storage import open_store


def test_it_has_its_newest_blocks_and_all_of_them_can_be_restored(tmp_path: Path) -> None:
    shape = Shape(commits=60, blocks=20, files=200, sources=5, tail=3)
    make_archive(tmp_path / "a", shape)
    archive = Archive.open(open_store(str(tmp_path / "a")))
    assert (archive.state.sequence, len(archive.state.blocks)) == (shape.commits, shape.blocks)
    assert sum(len(placed.block.files()) - 1 for placed in archive.state.blocks.values()) == shape.files
    assert all(len(placed.block.tables) == shape.tables for placed in archive.state.blocks.values())
    sources = restore_points.describe(archive.state)["sources"]
    assert [(len(source["intervals"]), source["gaps"]) for source in sources] == [(1, [])] * shape.sources
    assert archive.state == State.begun(2).after(archive.commits())
    assert len(list((tmp_path / "a" / "checkpoints").iterdir())) == 1
