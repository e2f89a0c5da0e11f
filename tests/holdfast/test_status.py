"""The status of an archive: what it holds of each source, and what pages keep of that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.format.block import Block
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.config.archives_model import ObjectivesConfig, SourceConfig
from holdfast.status import record_of, status_of
from tests.support.archives.evolving import SOURCE, Evolving, catalog, changed, table
from tests.support.stores.memory_store import MemoryStore

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def full(source: str, hour: int, rows: int) -> Block:
    identity = f"{source}-{hour}"
    file = FileRecord(path=f"data/{source}/1/snapshot/{identity}/0.parquet", size=10 * rows, sha256="0" * 64)
    record = TableRecord(id="1", table_schema="shop", name="t", rows=rows, digest="", files=(file,))
    return make_block(
        identity=identity, source=source, position=f"0/{hour}00", at=NOON + timedelta(hours=hour), tables=(record,)
    )


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def archive(store: MemoryStore) -> Archive:
    """An archive with two full backups of `shop` and one of `crm`."""
    archive = Archive.create(store, name="kept")
    for block in (full("shop", 1, 3), full("crm", 2, 5), full("shop", 3, 4)):
        change = Change("backup", add=(block,))
        archive.add(lambda state, change=change: change, check=lambda: None, fence=None)  # type: ignore[misc]
    return archive


def test_it_is_told_without_a_request(store: MemoryStore, archive: Archive) -> None:
    store.requests.clear()
    assert status_of(archive) == {
        "archive": archive.identity.id,
        "name": "kept",
        "url": "memory",
        "format": 2,
        "min_reader": 2,
        "min_writer": 2,
        "commits": 3,
        "blocks": 3,
        "bytes": 120,
        "sources": [
            {"source": "crm", "backups": 1, "changes": 0, "restorable_to": "2026-03-01T14:00:00.000000Z", "rows": 5,
             "waiting": []},
            {"source": "shop", "backups": 2, "changes": 0, "restorable_to": "2026-03-01T15:00:00.000000Z", "rows": 4,
             "waiting": []},
        ],
    }  # fmt: skip
    assert store.requests == []


def test_changes_are_counted_apart_and_supplements_not_at_all() -> None:
    made, one = Evolving(), table(1)
    made.full(0x100, catalog(one), rows=7)
    made.changes(0x200, catalog(one), changed(one, 0x150, rows=2))
    made.full(0x180, catalog(one, table(2)), rows=1, only=(2,), supplement=True)
    (found,) = status_of(made.archive)["sources"]
    assert (found["source"], found["backups"], found["changes"], found["rows"]) == (SOURCE, 1, 1, 7)
    assert found["restorable_to"] == "2026-03-01T12:02:00.000000Z"


def test_an_empty_archive_has_no_sources(store: MemoryStore) -> None:
    found = status_of(Archive.create(store, name="new"))
    assert (found["sources"], found["blocks"], found["bytes"]) == ([], 0, 0)


def test_the_record_has_sizes_and_objectives_of_each_source_also_of_one_without_a_backup(
    store: MemoryStore, archive: Archive
) -> None:
    promised = SourceConfig(url="postgresql://me@here/x", objectives=ObjectivesConfig(rpo="1h"))
    found = record_of(archive, {"shop": promised, "new": promised})
    assert found["at"] == "2026-03-01T00:00:00.000000Z"
    sources = {each["source"]: each for each in found["sources"]}
    assert list(sources) == ["crm", "new", "shop"]
    assert {name: each["objectives"] for name, each in sources.items()} == {
        "crm": {}, "new": {"rpo": "1h"}, "shop": {"rpo": "1h"},
    }  # fmt: skip
    shop = sources["shop"]
    assert (shop["bytes"], shop["last_full"], shop["restorable_from"], shop["backups"]) == (
        70, "2026-03-01T15:00:00.000000Z", "2026-03-01T13:00:00.000000Z", 2,
    )  # fmt: skip
    new = sources["new"]
    assert (new["bytes"], new["last_full"], new["restorable_from"], "backups" in new) == (0, None, None, False)
    assert {name for name, value in status_of(archive).items() if name != "sources" and found[name] != value} == set()


def test_the_record_takes_one_request_and_three_a_source(store: MemoryStore, archive: Archive) -> None:
    store.requests.clear()
    record_of(archive, {})
    assert len(store.requests) <= 1 + 3 * 2
