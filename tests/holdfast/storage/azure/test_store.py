"""The store on Azure Blob Storage: what it asks of the server, and how often."""

from __future__ import annotations

import pytest

from holdfast.storage import ObjectChanged, ObjectExists, ObjectNotFound, StoreError, StoreUnavailable
from holdfast.storage.azure.store import AzureStore
from tests.support.stores.azure_requests import told, write_large
from tests.support.stores.failing_server import Answer, FailingServer


def test_a_part_of_a_large_object_is_sent_again_because_nothing_shows_it(
    server: FailingServer, store: AzureStore
) -> None:
    def write() -> None:
        with store.open_write("a") as file:
            file.write(b"x")

    server.answer = told(500, "InternalError")
    with pytest.raises(StoreUnavailable):
        write()
    assert server.count == 2
    assert all("comp=block&" in path for path in server.paths)


@pytest.mark.parametrize("answer", [told(409, "BlobAlreadyExists"), told(412, "ConditionNotMet")])
def test_a_taken_key_is_told(server: FailingServer, store: AzureStore, answer: Answer) -> None:
    server.answer = answer
    for write in (lambda store: store.create("a", b""), write_large):
        with pytest.raises(ObjectExists):
            write(store)
    assert server.count == 2


def test_a_replaced_object_that_is_gone_is_told_from_one_that_changed(
    server: FailingServer, store: AzureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = told(412, "ConditionNotMet")
    server.by_method = {"HEAD": told(404, "BlobNotFound")}
    with pytest.raises(ObjectNotFound):
        store.replace("a", b"", "0x1")
    monkeypatch.setattr(store, "head", lambda key: None)
    with pytest.raises(ObjectChanged):
        store.replace("a", b"", "0x1")


def test_a_server_that_tells_no_time_is_refused(server: FailingServer, store: AzureStore) -> None:
    server.tells_time = False
    server.answer = Answer(200, '<?xml version="1.0"?><EnumerationResults><Blobs/></EnumerationResults>')
    server.answer.headers["Content-Type"] = "application/xml"
    with pytest.raises(StoreError, match="Date"):
        store.list("")
