"""What each failure of Google Cloud Storage means, from a server that fails as told."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator

import pytest
from google.auth.exceptions import DefaultCredentialsError

from holdfast.storage import (
    ConditionNotSupported,
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreOutcomeUnknown,
    StoreUnavailable,
    open_store,
)
from holdfast.storage.contract import connections
from holdfast.storage.contract.parts import PART_BYTES
from holdfast.storage.gcs import store as gcs_module
from holdfast.storage.gcs.store import ONCE, GcsStore
from tests.support.stores.failing_server import CUT, SILENT, Answer, FailingServer, closed_port, failing_server

SESSION = "sesame"
PATIENCE = 2
"""Tries of a read, and of a write that is one too many."""


def told(status: int, reason: str) -> Answer:
    """An error as Google's JSON API tells it."""
    body = {"error": {"code": status, "message": f"{reason} was told", "errors": [{"reason": reason}]}}
    return Answer(status, json.dumps(body), {"Content-Type": "application/json"})


NO_BUCKET = Answer(404, '{"error": {"code": 404, "message": "The specified bucket does not exist."}}')


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[FailingServer, GcsStore]]:
    """One server and one client for all tests."""
    with failing_server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "ATTEMPTS", PATIENCE)
        patch.setattr(connections, "FIRST_PAUSE", 0.0)
        patch.setattr(gcs_module, "PART_PATIENCE", 0.0)
        patch.setitem(ONCE, "timeout", (5.0, 0.3))
        patch.setenv("STORAGE_EMULATOR_HOST", server.endpoint)
        yield server, GcsStore("bucket", "prefix")


@pytest.fixture
def server(running: tuple[FailingServer, GcsStore]) -> FailingServer:
    running[0].reset()
    return running[0]


@pytest.fixture
def store(running: tuple[FailingServer, GcsStore]) -> GcsStore:
    return running[1]


def write_large(store: GcsStore) -> None:
    with store.open_write("a") as file:
        file.write(b"")


PLAIN_WRITES: list[Callable[[GcsStore], object]] = [
    lambda store: store.put("a", b"x"),
    lambda store: store.touch("a", b"x"),
    lambda store: store.delete("a"),
]
WRITES = [
    *PLAIN_WRITES,
    lambda store: store.create("a", b"x"),
    lambda store: store.replace("a", b"x", "1"),
    write_large,
]
READS: list[Callable[[GcsStore], object]] = [
    lambda store: store.get("a"),
    lambda store: store.head("a"),
    lambda store: store.list(""),
    lambda store: store.open_read("a"),
]
CERTAIN = [
    (told(401, "authError"), StoreDenied),
    (told(403, "forbidden"), StoreDenied),
    (told(403, "retentionPolicyNotMet"), StoreDenied),
    (NO_BUCKET, StoreError),
    (told(400, "invalid"), StoreError),
    (told(409, "conflict"), StoreError),
    (told(501, "notImplemented"), ConditionNotSupported),
]
DOUBTFUL = [
    told(500, "internalError"),
    told(503, "backendError"),
    Answer(408),
    Answer(502),
    Answer(504, "<html>a proxy</html>"),
    CUT,
    SILENT,
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(("answer", "error"), CERTAIN)
def test_a_write_that_the_server_refused_certainly_did_nothing(
    server: FailingServer,
    store: GcsStore,
    write: Callable[[GcsStore], object],
    answer: Answer,
    error: type[StoreError],
) -> None:
    server.answer = answer
    with pytest.raises(error) as caught:
        write(store)
    assert type(caught.value) is error
    assert server.count == 1


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("answer", DOUBTFUL)
def test_a_write_without_a_clear_answer_is_unknown_and_never_sent_again(
    server: FailingServer, store: GcsStore, write: Callable[[GcsStore], object], answer: Answer
) -> None:
    server.answer = answer
    with pytest.raises(StoreOutcomeUnknown, match="look before trying again"):
        write(store)
    assert server.count == 1


@pytest.mark.slow
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("answer", [*DOUBTFUL, told(429, "rateLimitExceeded")])
def test_a_read_without_an_answer_is_tried_again_then_unavailable(
    server: FailingServer, store: GcsStore, read: Callable[[GcsStore], object], answer: Answer
) -> None:
    server.answer = answer
    with pytest.raises(StoreUnavailable):
        read(store)
    assert server.count == 2


@pytest.mark.parametrize("read", READS)
def test_a_read_that_is_denied_is_not_tried_again(
    server: FailingServer, store: GcsStore, read: Callable[[GcsStore], object]
) -> None:
    server.answer = told(403, "forbidden")
    with pytest.raises(StoreDenied, match="GOOGLE_APPLICATION_CREDENTIALS"):
        read(store)
    assert server.count == 1


@pytest.mark.parametrize("write", WRITES[:-1])
def test_a_write_that_is_one_too_many_did_nothing_and_is_sent_again(
    server: FailingServer, store: GcsStore, write: Callable[[GcsStore], object]
) -> None:
    server.answer = told(429, "rateLimitExceeded")
    with pytest.raises(StoreUnavailable):
        write(store)
    assert server.count == PATIENCE


def uploading(server: FailingServer, at: str) -> None:
    """Let the server take the first part of a large object."""
    server.by_method = {
        "POST": Answer(200, headers={"Location": f"{at}/upload?upload_id={SESSION}"}),
        "PUT": Answer(308, headers={"Range": f"bytes=0-{PART_BYTES - 1}"}),
    }


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


def test_what_is_not_there_is_said_so(server: FailingServer, store: GcsStore) -> None:
    server.answer = told(404, "notFound")
    for read in (store.get, store.head, store.open_read):
        with pytest.raises(ObjectNotFound):
            read("a")
    store.delete("a")


def test_a_bucket_that_is_not_there_is_said_so(server: FailingServer, store: GcsStore) -> None:
    server.answer = NO_BUCKET
    for use in [*READS, *WRITES]:
        with pytest.raises(StoreError, match="bucket does not exist"):
            use(store)
    server.answer = told(404, "notFound")
    for use in [lambda store: store.list(""), lambda store: store.put("a", b""), write_large]:
        with pytest.raises(StoreError, match="bucket does not exist"):
            use(store)


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
    monkeypatch.setattr(store, "head", lambda key: None)
    with pytest.raises(ObjectChanged):
        store.replace("a", b"", "1")


def test_a_server_that_says_yes_to_everybody_fails_the_probe(server: FailingServer, store: GcsStore) -> None:
    server.answer = Answer(200, "{}")
    assert store.probe_create_if_absent(threads=2) is False


def test_a_server_that_is_not_there_did_nothing(server: FailingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{closed_port()}")
    store = GcsStore("container", "prefix")
    for use in [*WRITES, *READS]:
        with pytest.raises(StoreUnavailable, match="try again"):
            use(store)


def test_a_server_that_tells_no_time_is_refused(server: FailingServer, store: GcsStore) -> None:
    server.tells_time = False
    server.answer = Answer(200, "{}", {"Content-Type": "application/json"})
    with pytest.raises(StoreError, match="Date"):
        store.list("")


def test_a_silent_server_is_waited_for_no_longer_than_told(server: FailingServer, store: GcsStore) -> None:
    server.answer = SILENT
    began = time.monotonic()
    with pytest.raises(StoreOutcomeUnknown):
        store.put("a", b"")
    assert time.monotonic() - began < 5


def test_the_session_of_an_upload_is_in_no_error(server: FailingServer, store: GcsStore) -> None:
    def write() -> None:
        with store.open_write("a") as file:
            file.write(b"x" * PART_BYTES)

    uploading(server, f"http://127.0.0.1:{closed_port()}")
    with pytest.raises(StoreUnavailable, match="Failed to establish a new connection: ") as caught:
        write()
    assert SESSION not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_missing_credentials_are_said_so(server: FailingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*arguments: object, **options: object) -> None:
        raise DefaultCredentialsError("Your default credentials were not found.")  # type: ignore[no-untyped-call]

    monkeypatch.delenv("STORAGE_EMULATOR_HOST")
    monkeypatch.setattr("google.auth.default", nobody)
    store = open_store("gs://bucket/x")
    for use in [*WRITES, *READS]:
        with pytest.raises(StoreDenied, match="GOOGLE_APPLICATION_CREDENTIALS"):
            use(store)
    assert server.count == 0
