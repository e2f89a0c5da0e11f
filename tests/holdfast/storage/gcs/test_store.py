"""The store on Google Cloud Storage: what it asks of the server, and how often."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from holdfast.storage import ObjectChanged, ObjectExists, ObjectNotFound, StoreError, StoreUnavailable
from holdfast.storage.contract.parts import PART_BYTES
from holdfast.storage.gcs.store import GcsStore
from tests.support.stores.failing_server import CUT, Answer, FailingServer
from tests.support.stores.gcs_requests import PATIENCE, WRITES, told, uploading, write_large


@pytest.mark.parametrize("write", WRITES[:-1])
def test_a_write_that_is_one_too_many_did_nothing_and_is_sent_again(
    server: FailingServer, store: GcsStore, write: Callable[[GcsStore], object]
) -> None:
    server.answer = told(429, "rateLimitExceeded")
    with pytest.raises(StoreUnavailable):
        write(store)
    assert server.count == PATIENCE


@pytest.mark.parametrize("ending", [Answer(499), CUT])
def test_a_large_write_that_is_given_up_is_never_completed(
    server: FailingServer, store: GcsStore, ending: Answer
) -> None:
    def write() -> None:
        with store.open_write("a") as file:
            file.write(b"x" * (PART_BYTES + 1))
            raise ZeroDivisionError

    uploading(server, server.endpoint)
    server.by_method["DELETE"] = ending
    with pytest.raises(ZeroDivisionError):
        write()
    gc.collect()  # a file that is dropped is closed
    assert server.count == 3


def test_a_taken_key_is_told(server: FailingServer, store: GcsStore) -> None:
    server.answer = told(412, "conditionNotMet")
    for write in (lambda store: store.create("a", b""), write_large):
        with pytest.raises(ObjectExists):
            write(store)
    assert server.count == 2


def test_a_replaced_object_that_is_gone_is_told_from_one_that_changed(
    server: FailingServer, store: GcsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = told(412, "conditionNotMet")
    server.by_method = {"GET": told(404, "notFound")}
    with pytest.raises(ObjectNotFound):
        store.replace("a", b"", "1")
    monkeypatch.setattr(store, "head", lambda key: None)
    with pytest.raises(ObjectChanged):
        store.replace("a", b"", "1")


def test_a_server_that_says_yes_to_everybody_fails_the_probe(server: FailingServer, store: GcsStore) -> None:
    server.answer = Answer(200, "{}")
    assert store.probe_create_if_absent(threads=2) is False


def test_a_server_that_tells_no_time_is_refused(server: FailingServer, store: GcsStore) -> None:
    server.tells_time = False
    server.answer = Answer(200, "{}", {"Content-Type": "application/json"})
    with pytest.raises(StoreError, match="Date"):
        store.list("")
