"""A file that is named at once instead of being read whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.archives.grown import Grown, grown_file


@pytest.fixture
def grown(tmp_path: Path) -> Grown:
    return grown_file(tmp_path / "grown")
