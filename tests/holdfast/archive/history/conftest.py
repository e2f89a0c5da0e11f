"""An archive with three backups, an hour apart, and one whose changes join."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from holdfast.archive import Archive, Change, State
from holdfast.archive.format.block import Block
from tests.support.archives.chain_writer import ChainWriter

MakeBlock = Callable[..., Block]


@pytest.fixture
def state(archive: Archive, block: MakeBlock, noon: datetime) -> State:
    """The state of an archive with three full backups of a source."""
    for hour in range(3):
        added = block(identity=f"b{hour}", position=f"0/{hour}00", at=noon + timedelta(hours=hour))
        change = Change(kind="backup", add=(added,))
        archive.add(lambda state, change=change: change, check=lambda: None, fence=None)  # type: ignore[misc]
    return archive.state


@pytest.fixture
def writer(archive: Archive, block: MakeBlock, noon: datetime) -> ChainWriter:
    return ChainWriter(archive, block, noon)
