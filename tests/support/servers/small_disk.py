"""A disk that is soon full: a file system of a few megabytes in memory."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.storage import ObjectStore, open_store


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a disk of so many bytes, such as `8m`, on a new folder; skips the test where that is not allowed.

    It belongs to whom the folder above belongs to.
    """
    folder.mkdir()
    options = f"size={size},mode=0700,uid={folder.parent.stat().st_uid},gid={folder.parent.stat().st_gid}"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("this user may not mount file systems: no disk can be made to be full")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


class OnSmallDisk:
    """Tests of an archive on a disk of its own."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[ObjectStore]:
        with small_disk(tmp_path / "disk", "50m") as disk:
            yield Archive.create(open_store(str(disk / "archive")), name="shop").store


def leave_room(disk: Path, size: int) -> None:
    """Make a small disk as large as what is on it, and so many bytes."""
    subprocess.run(["mount", "-o", f"remount,size={shutil.disk_usage(disk).used + size}", disk], check=True)
