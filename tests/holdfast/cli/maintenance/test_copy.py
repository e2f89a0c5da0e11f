"""`holdfast copy`: what it tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.storage import ObjectStore, open_store
from tests.support.jobs.command import RunCommand


@pytest.fixture
def to(tmp_path: Path) -> str:
    return str(tmp_path / "copy")


def test_a_copy_tells_what_was_copied_and_what_was_there(holdfast: RunCommand, filled: ObjectStore, to: str) -> None:
    done = holdfast("copy", filled.url, to, "--json")
    assert done.code == 0, done.err
    size = sum(found.size for found in filled.list("data/").objects)
    assert done.value == {
        "archive": Archive.open(filled).identity.id,
        "name": "shop",
        "from": filled.url,
        "to": to,
        "commit": 1,
        "commits": 1,
        "files": 2,
        "bytes": size,
        "skipped": 0,
        "replaced": 0,
        "left_out": None,
    }
    again = holdfast("copy", filled.url, to)
    assert again.out == f"copied shop to {to}: 0 files (0 B), 2 were there; 0 commits, up to commit 1\n"


def test_a_dry_run_copies_nothing(holdfast: RunCommand, filled: ObjectStore, to: str) -> None:
    done = holdfast("copy", filled.url, to, "--dry-run", "--json")
    assert (done.value["files"], done.value["commits"], done.value["dry_run"]) == (2, 1, True)
    assert not Path(to).exists()


def test_damaged_files_are_replaced_where_they_are_read(holdfast: RunCommand, filled: ObjectStore, to: str) -> None:
    holdfast("copy", filled.url, to, "--json")
    key = filled.list("data/").objects[0].key
    open_store(to).put(key, bytes(filled.head(key).size))
    assert holdfast("verify", to, "--deep", "--json").code == 4
    assert "1 of them in place of damaged ones" in holdfast("copy", filled.url, to, "--deep").out
    assert holdfast("verify", to, "--deep", "--json").code == 0


def test_archives_may_be_named(
    holdfast: RunCommand, filled: ObjectStore, to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "archives.yaml"
    file.write_text(f"archives: {{shop: {{url: {filled.url}}}, far: {{url: {to}}}}}")
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(file))
    assert holdfast("copy", "shop", "far", "--json").value["to"] == to
