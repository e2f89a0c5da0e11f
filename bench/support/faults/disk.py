"""A disk that is soon full: a file system of a few megabytes in memory."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class MountError(Exception):
    """This user may not mount file systems."""


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """Mount a disk of so many bytes, such as `8m`, on a new folder, until the block ends.

    It belongs to whom the folder above belongs to.

    :raises MountError: that is not allowed.
    """
    folder.mkdir()
    options = f"size={size},mode=0700,uid={folder.parent.stat().st_uid},gid={folder.parent.stat().st_gid}"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        raise MountError("this user may not mount file systems: no disk can be made to be full")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def resize(disk: Path, size: int) -> None:
    """Make a disk so many bytes large."""
    subprocess.run(["mount", "-o", f"remount,size={size}", disk], check=True)


def leave_room(disk: Path, size: int) -> None:
    """Make a disk as large as what is on it, and so many bytes."""
    resize(disk, shutil.disk_usage(disk).used + size)
