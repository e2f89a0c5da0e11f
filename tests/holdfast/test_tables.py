"""Tables of a backup at a moment, as Arrow batches."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.archive import Archive
from holdfast.common.errors import RefusedError, UsageError
from holdfast.replication.log.replicas import add
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work.membership import begin_membership
from holdfast.replication.work.replica import ReplicatedArchive
from holdfast.storage import ObjectStore, open_store
from holdfast.tables import find_table, table_at
from tests.support.archives.queried import fill
from tests.support.replicas.replicated import made_backup

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    store = Archive.create(open_store(str(tmp_path / "archive")), name="shop").store
    fill(store)
    return store


@pytest.mark.parametrize(("at", "texts"), [("commit:1", "abc"), ("latest", ["c", "changed", "new"])])
def test_rows_are_those_of_the_moment(store: ObjectStore, at: str, texts: str | list[str]) -> None:
    found = table_at(store.url, "shop.orders", at=at).read_all()
    assert sorted(found["text"].to_pylist()) == list(texts)
    assert found.schema.names == ["id", "day", "text", "note", "price", "day__exact", "price__exact"]


def test_rows_of_partitions_are_those_of_the_table(store: ObjectStore) -> None:
    found = find_table(store.url, "all_places")
    assert (found.label, found.parts) == ("shop.all_places", ("5",))
    assert table_at(store.url, "all_places").read_all().to_pylist() == [{"Name": "here", "at": "(1,2)"}]


def test_locks_are_held_while_rows_are_read_and_then_given_back(store: ObjectStore) -> None:
    reader = table_at(store.url, "orders")
    assert not store.list("locks/").objects
    rows: list[pa.RecordBatch] = [reader.read_next_batch()]
    assert len(store.list("locks/").objects) == 2
    rows += reader
    assert sum(batch.num_rows for batch in rows) == 3
    assert not store.list("locks/").objects


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("nothing", "nothing names no table of that moment"),
        ("shop.places", "shop.places names no table of that moment"),
    ],
)
def test_a_table_that_is_not_there_is_refused(store: ObjectStore, table: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        find_table(store.url, table)


def test_a_moment_that_cannot_be_restored_is_refused(store: ObjectStore) -> None:
    with pytest.raises(RefusedError, match="nearest restorable moments"):
        find_table(store.url, "orders", at="2020-01-01T00:00:00Z")


def test_a_sequential_read_finds_the_moments_that_count(store: ObjectStore, tmp_path: Path) -> None:
    with CoordinationStore.open(f"sqlite:///{tmp_path}/log.db") as coordination:
        begin_membership(coordination, store, "near")
        coordination.run(lambda c: add(c, Archive.open(store).identity.id, name="far", url=str(tmp_path / "far")))
        near = ReplicatedArchive.begin(store, coordination)
        near.quorum_request = QuorumRequest(2)
        commit = near.add(made_backup(store, "shop_db")[1], check=lambda: None, fence=None)
        pending = f"commit:{commit.sequence}"
        with pytest.raises(RefusedError, match="is no restore point"):
            find_table(store.url, "orders", at=pending, consistency="sequential", coordination=coordination.url)
        rows = table_at(store.url, "orders", consistency="sequential", coordination=coordination.url).read_all()
        assert rows.num_rows == 3


def test_a_consistency_that_nobody_knows_is_refused(store: ObjectStore) -> None:
    with pytest.raises(UsageError, match="a consistency is eventual or sequential, not 'strict'"):
        table_at(store.url, "orders", consistency="strict")
