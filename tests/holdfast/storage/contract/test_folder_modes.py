"""Rights on an archive's folder: whose they are, whatever the umask."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from holdfast.common.errors import UsageError
from holdfast.storage.folder import FolderStore


@pytest.mark.parametrize(
    ("said", "umask", "folder", "file"),
    [("", 0o022, 0o700, 0o600), ("private", 0, 0o700, 0o600), ("group", 0o077, 0o750, 0o640)],
)
def test_an_archive_is_for_its_owner_alone_or_for_their_group_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, umask: int, folder: int, file: int
) -> None:
    monkeypatch.setenv("HOLDFAST_FOLDER_MODE", said)
    before = os.umask(umask)
    try:
        store = FolderStore(tmp_path / "above" / "archive")
        store.put("data/1/a", b"put")
        store.create("data/1/b", b"created")
        with store.open_write("data/2/c") as large:
            large.write(b"written")
    finally:
        os.umask(before)
    modes = {
        stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "above" / "archive").rglob("*") if path.is_file()
    }
    assert modes == {file}
    folders = [tmp_path / "above" / "archive", *(tmp_path / "above" / "archive").rglob("*")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders if path.is_dir()} == {folder}
    assert stat.S_IMODE((tmp_path / "above").stat().st_mode) == 0o777 & ~umask


def test_a_folder_that_was_there_keeps_its_rights(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    FolderStore(tmp_path).put("a", b"1")
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_mode_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_FOLDER_MODE", "all")
    with pytest.raises(UsageError, match="HOLDFAST_FOLDER_MODE is 'all'; it may be one of: private, group"):
        FolderStore(tmp_path)
