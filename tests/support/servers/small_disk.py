"""A disk that is soon full, for tests that are skipped where none can be made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bench.support.faults.disk import MountError, mounted
from holdfast.archive import Archive
from holdfast.storage import ObjectStore, open_store


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a disk of so many bytes, such as `8m`, on a new folder; skips the test where that is not allowed."""
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(mounted(folder, size))
        except MountError as error:
            pytest.skip(str(error))
        yield disk


class OnSmallDisk:
    """Tests of an archive on a disk of its own."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[ObjectStore]:
        with small_disk(tmp_path / "disk", "50m") as disk:
            yield Archive.create(open_store(str(disk / "archive")), name="shop").store
