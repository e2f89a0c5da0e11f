"""Archives in memory to collect metrics of, and what is collected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.metrics.catalogue import Sample
from holdfast.replication.log.store import CoordinationStore
from tests.support.replicas.replicated import Replicas
from tests.support.stores.memory_store import MemoryStore

NOON = datetime(2026, 2, 28, 12, tzinfo=UTC)


def values(samples: Iterable[Sample]) -> dict[str, float]:
    """Return samples as Prometheus shows them, each once."""
    found: dict[str, float] = {}
    for each in samples:
        labels = ",".join(f"{name}={value}" for name, value in each.labels.items())
        shown = f"{each.name}{{{labels}}}" if labels else each.name
        assert shown not in found
        found[shown] = each.value
    return found


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def archive(store: MemoryStore) -> Archive:
    """An archive with one full backup of `shop_db`, half a day old by the store's clock."""
    archive = Archive.create(store, name="shop")
    change = Change(kind="backup", add=(make_block(position="0/100", at=NOON),))
    archive.add(lambda state: change, check=lambda: None, fence=None)
    return archive


@pytest.fixture
def coordination(tmp_path: Path) -> Iterator[CoordinationStore]:
    """A coordination store in a file."""
    with CoordinationStore.open(f"sqlite:///{tmp_path}/log.db") as store:
        yield store


@pytest.fixture
def two(tmp_path: Path, coordination: CoordinationStore) -> Replicas:
    """An archive with one backup and the replicas `near` and `far`."""
    return Replicas.copied(tmp_path, coordination, "far")
