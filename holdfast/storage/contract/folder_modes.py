"""Rights on an archive's folder."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.common.cleanup import cleanup
from holdfast.storage.contract.settings import bad_setting

if TYPE_CHECKING:
    from pathlib import Path

MODE = "HOLDFAST_FOLDER_MODE"  # name of an environment variable; empty counts as not set


@dataclass(frozen=True)
class FolderModes:
    """Rights on an archive's folder: its owner's; with ``HOLDFAST_FOLDER_MODE=group`` their group's, too.

    Files and folders have these rights under every umask. A folder that is there already keeps its own.
    """

    folder: int = 0o700
    file: int = 0o600

    @classmethod
    def from_environment(cls) -> FolderModes:
        mode = os.environ.get(MODE, "") or "private"
        if mode not in ("private", "group"):
            raise bad_setting(MODE, mode, "private, group")
        return cls() if mode == "private" else cls(0o750, 0o640)

    def open(self, path: str, flags: int) -> int:
        descriptor = os.open(path, flags, self.file)
        with contextlib.suppress(PermissionError):  # a file system that keeps no rights of its own
            os.fchmod(descriptor, self.file)
        return descriptor

    def make(self, folder: Path) -> None:
        """Make a folder, unless another process does meanwhile."""
        with contextlib.suppress(FileExistsError):
            folder.mkdir(self.folder)
            with contextlib.suppress(PermissionError):
                folder.chmod(self.folder)

    def make_below(self, folder: Path, root: Path) -> None:
        """Make a folder below a root, and those between, and make their names durable."""
        missing = []
        while folder != root and not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for name in reversed(missing):
            self.make(name)
            sync_folder(name.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    with cleanup(lambda: os.close(descriptor)):
        os.fsync(descriptor)
