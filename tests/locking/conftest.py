"""A store in memory, on a clock that only tests move."""

from __future__ import annotations

import pytest

from locking.runtime import Runtime
from tests.support.locks.lockstore import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def runtime(store: MemoryStore) -> Runtime:
    return store.time.runtime()
