"""Archives in a folder, and a store that loses replies on demand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive
from holdfast.archive.format.block import Block
from holdfast.storage import ObjectStore, open_store


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path / "archive"))


@pytest.fixture
def archive(store: ObjectStore) -> Archive:
    return Archive.create(store, name="shop")


@pytest.fixture
def block() -> Callable[..., Block]:
    return make_block


@pytest.fixture
def noon() -> datetime:
    return datetime(2026, 3, 1, 12, tzinfo=UTC)
