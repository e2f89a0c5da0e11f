"""The store on S3: what it asks of the server, and how often."""

from __future__ import annotations

import pytest

from holdfast.storage import ConditionNotSupported, ObjectExists, StoreError, StoreUnavailable
from holdfast.storage.contract import object_store
from holdfast.storage.s3 import store as s3_module
from holdfast.storage.s3.store import S3Store
from tests.support.stores.fake_s3 import FakeS3, Fault


def test_a_taken_key_is_told_from_a_rival_under_way(server: FakeS3, store: S3Store) -> None:
    server.fail(Fault(412, "PreconditionFailed"))
    with pytest.raises(ObjectExists):
        store.create("a", b"")
    assert len(server.received) == 1
    server.fail(Fault(409, "ConditionalRequestConflict"))
    with pytest.raises(StoreUnavailable):
        store.create("a", b"")
    assert len(server.received) == 1 + s3_module.CREATE_ATTEMPTS


def test_a_server_without_create_if_absent_fails_the_probe(server: FakeS3, store: S3Store) -> None:
    server.fail(Fault(501, "NotImplemented"))
    with pytest.raises(ConditionNotSupported):
        store.create("a", b"")
    assert store.probe_create_if_absent(threads=2) is False


def test_a_server_that_tells_no_time_is_refused(server: FakeS3, store: S3Store) -> None:
    server.date = False
    with pytest.raises(StoreError, match="Date"):
        store.list("")


def test_an_object_that_is_larger_than_any_document_is_not_read_into_memory(
    server: FakeS3, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    del server
    monkeypatch.setattr(object_store, "LARGEST_DOCUMENT", 10)
    store.put("small", b"x" * 10)
    store.put("large", b"x" * 11)
    assert store.get("small") == b"x" * 10
    with pytest.raises(object_store.ObjectTooLarge, match="large is damaged or not ours: it has 11 bytes"):
        store.get("large")
