"""What a worker finds out about an archive's store, and about a source."""

from __future__ import annotations

import pytest

from holdfast.archive import Archive
from holdfast.postgresql.connection.address import Address
from holdfast.storage import ObjectStore
from locking.store import StoreDenied
from sparkjobs.tasks.reach import SourceReach, StoreReach
from tests.support.stores.memory_store import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def remedies(store: ObjectStore, identity: str = "") -> dict[str, str]:
    return {each.what: each.remedy for each in StoreReach(store, identity)([None])}


def test_an_archive_is_read_and_written_and_nothing_is_left(store: MemoryStore) -> None:
    archive = Archive.create(store, name="shop")
    before = [each.key for each in store.list("").objects]
    assert remedies(store, archive.identity.id) == {"archive": "", "writing": ""}
    assert [each.key for each in store.list("").objects] == before


def test_a_place_without_an_archive_is_not_written(store: MemoryStore) -> None:
    assert "there is no archive.json" in remedies(store)["archive"]
    assert remedies(store).keys() == {"archive"}


def test_another_archive_at_the_same_place_is_told(store: MemoryStore) -> None:
    archive = Archive.create(store, name="shop")
    told = remedies(store, "another")["archive"]
    assert told.startswith(
        f"archive {archive.identity.id} is there, and another here: an archive in a folder needs one"
    )


def test_what_may_not_be_written_is_told_in_the_words_of_the_store(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    Archive.create(store, name="shop")

    def denied(key: str, body: bytes) -> None:
        raise StoreDenied(f"Could not write {key.partition('/')[0]}. Check the credentials.")

    monkeypatch.setattr(store, "put", denied)
    assert remedies(store) == {"archive": "", "writing": "Could not write probes. Check the credentials."}


def test_what_may_not_be_read_is_told_in_the_words_of_the_store(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(key: str) -> bytes:
        raise StoreDenied(f"Could not read {key}. Check the credentials.")

    monkeypatch.setattr(store, "get", denied)
    assert remedies(store) == {"archive": "Could not read archive.json. Check the credentials."}


def test_a_database_without_a_server_is_told() -> None:
    (told,) = SourceReach("shop", Address.parse("postgresql://me:s3cret@127.0.0.1:1/x"))([None])
    assert (told.what, told.found) == ("source shop", "postgresql://me@127.0.0.1:1/x cannot be reached")
    assert "Is the server running" in told.remedy


@pytest.mark.service
def test_a_database_that_answers_is_told(address: Address) -> None:
    (told,) = SourceReach("shop", address)([None])
    assert (told.ok, told.found) == (True, f"{address.url} answers")
