"""Everything together: what cannot be read takes nothing else along, and requests are few."""

from __future__ import annotations

import threading

import pytest

from holdfast.archive import Archive
from holdfast.common.errors import HoldfastError
from holdfast.config.archives_model import SourceConfig
from holdfast.metrics import collect as collecting
from holdfast.metrics.collect import Collected, ObservedArchive, collect
from holdfast.postgresql.connection.address import Address
from holdfast.replication.log.store import CoordinationStore
from holdfast.storage import ObjectStore
from locking import Owner, RWLock
from locking.store import StoreError, StoreUnavailable
from tests.holdfast.metrics.conftest import values
from tests.support.replicas.replicated import Replicas
from tests.support.stores.memory_store import MemoryStore, Spoilt

AWAY = Address.parse("postgresql://me:canary-5c1f@127.0.0.1:1/shop")
SOURCE = SourceConfig(url="postgresql://me@127.0.0.1:1/shop")


def failing() -> ObjectStore:
    raise HoldfastError("the bucket is gone: look for it")


def observed(name: str | None, store: ObjectStore, **more: object) -> ObservedArchive:
    return ObservedArchive(name, places={"memory": lambda: store}, **more)  # type: ignore[arg-type]


def ups(found: Collected) -> dict[str, float]:
    return {name: value for name, value in values(found.samples).items() if "_up{" in name}


def test_what_cannot_be_read_is_told_and_takes_nothing_else_along(archive: Archive, store: MemoryStore) -> None:
    found = collect(
        [
            ObservedArchive("gone", places={"x": failing}),
            ObservedArchive("wrong", mistake="archives.yaml, line 3: archives.wrong.url: is missing"),
            observed("shop", store, sources={"shop_db": SOURCE}, addresses={"shop_db": AWAY}),
        ]
    )
    assert ups(found) == {
        "holdfast_archive_up{archive=gone}": 0,
        "holdfast_archive_up{archive=wrong}": 0,
        "holdfast_archive_up{archive=shop}": 1,
        "holdfast_source_server_up{archive=shop,source=shop_db}": 0,
    }
    assert values(found.samples)["holdfast_archive_blocks{archive=shop}"] == 1
    assert found.problems[:2] == [
        "archive gone cannot be read: the bucket is gone: look for it",
        "archive wrong cannot be read: archives.yaml, line 3: archives.wrong.url: is missing",
    ]
    assert found.problems[2].startswith("source shop_db of shop cannot be read: cannot connect to postgresql://")
    assert not any("canary" in words for words in [*found.problems, *map(str, found.samples)])


def test_requests_are_as_few_as_the_documentation_says(archive: Archive, store: MemoryStore) -> None:
    store.requests.clear()
    collect([observed("shop", store)])
    assert len(store.requests) == 8
    with RWLock(store, "format", owner=Owner()).read(purpose="one", wait=0):
        store.requests.clear()
        collect([observed("shop", store)])
        assert len(store.requests) == 9
    store.requests.clear()
    collect([observed("shop", store)], listing=True)
    assert len(store.requests) == 8 + 2


def test_a_part_that_cannot_be_read_is_down_and_the_others_are_told(archive: Archive, store: MemoryStore) -> None:
    store.requests.clear()
    collect([observed("shop", store)])
    store.spoilt = Spoilt(2 * len(store.requests), "before", StoreUnavailable("the list of locks is refused"))
    found = collect([observed("shop", store)])
    assert ups(found) == {"holdfast_archive_up{archive=shop}": 0}
    assert found.problems == ["archive shop cannot be read: the list of locks is refused"]
    assert values(found.samples)["holdfast_archive_blocks{archive=shop}"] == 1


def test_two_archives_of_one_name_are_told_apart_and_no_label_has_a_secret(
    archive: Archive, store: MemoryStore
) -> None:
    copy = ObservedArchive(None, places={"s3://key:canary@bucket/x?token=canary": store.copy})
    found = collect(
        [observed(None, store), copy, ObservedArchive(None, places={"s3://a:b@gone/y?sig=canary": failing})]
    )
    assert set(ups(found)) == {
        "holdfast_archive_up{archive=shop}",
        "holdfast_archive_up{archive=s3://bucket/x}",
        "holdfast_archive_up{archive=s3://gone/y}",
    }
    assert not any("canary" in words for words in [*found.problems, *map(str, found.samples)])


def test_the_first_replica_that_can_be_read_counts_and_the_others_are_said(
    two: Replicas, coordination: CoordinationStore
) -> None:
    places = {"near": failing, "far": lambda: two.place("far")}
    found = collect([ObservedArchive("shop", places=places, coordination=coordination.url)])
    assert ups(found) == {"holdfast_archive_up{archive=shop}": 1, "holdfast_coordination_store_up{archive=shop}": 1}
    assert found.problems == ["archive shop cannot be read: the bucket is gone: look for it"]


def test_of_an_archive_that_is_away_the_log_is_told_all_the_same(
    two: Replicas, coordination: CoordinationStore
) -> None:
    class Broken(MemoryStore):
        def get(self, key: str) -> bytes:
            raise StoreError("no answer")

    broken = Broken()
    broken.url = two.place("near").url
    found = collect([ObservedArchive("shop", places={"near": lambda: broken}, coordination=coordination.url)])
    assert ups(found) == {"holdfast_archive_up{archive=shop}": 0, "holdfast_coordination_store_up{archive=shop}": 1}
    gone = collect([ObservedArchive("shop", places={"near": failing}, coordination="sqlite:////nowhere/log.db")])
    assert ups(gone)["holdfast_coordination_store_up{archive=shop}"] == 0
    assert gone.problems[1].startswith("the coordination store of shop cannot be read")


def test_a_log_whose_store_nobody_names_is_down(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    found = collect([observed("shop", two.place("near"))])
    assert ups(found)["holdfast_coordination_store_up{archive=shop}"] == 0
    assert "say where the coordination store is" in found.problems[0]


def test_one_that_hangs_holds_up_nobody_for_long(
    archive: Archive, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(collecting, "ARCHIVE_LIMIT_S", 0.5)

    def hangs() -> ObjectStore:
        go_on.wait(30)
        return store

    found = collect([ObservedArchive("slow", places={"x": hangs}), observed("shop", store)])
    go_on.set()
    assert ups(found) == {"holdfast_archive_up{archive=slow}": 0, "holdfast_archive_up{archive=shop}": 1}
    assert found.problems == ["archive slow cannot be read: it has not answered within 0.5 s"]


def test_an_error_that_nobody_foresaw_is_of_its_archive_alone(
    archive: Archive, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("holdfast.metrics.archive.holds", broken)
    found = collect([observed("shop", store)])
    assert found.problems == ["archive shop cannot be read: RuntimeError: boom"]
    assert ups(found) == {"holdfast_archive_up{archive=shop}": 0}


def test_a_password_in_an_error_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def talkative() -> ObjectStore:
        raise HoldfastError("postgresql://me:canary@host/db does not answer")

    assert "canary" not in collect([ObservedArchive("shop", places={"x": talkative})]).problems[0]


def test_release_and_time_are_always_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 5.0)
    assert {name.partition("{")[0]: value for name, value in values(collect([]).samples).items()} == {
        "holdfast_build_info": 1,
        "holdfast_metrics_collected_timestamp_seconds": 5,
    }
