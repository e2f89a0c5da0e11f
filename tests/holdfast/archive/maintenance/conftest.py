"""An archive with a snapshot, to which blocks of changes are added."""

from __future__ import annotations

from datetime import datetime

import pytest

from holdfast.archive import Archive
from tests.support.archives.written_blocks import MakeBlock, Writer


@pytest.fixture
def writer(archive: Archive, block: MakeBlock, noon: datetime) -> Writer:
    writer = Writer(archive, block, noon)
    writer.full()
    return writer
