"""What each failure of Azure Blob Storage means, from a server that fails as told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from azure.core.exceptions import ClientAuthenticationError

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
from holdfast.storage.azure.store import AzureStore
from holdfast.storage.contract import connections
from tests.support.stores.failing_server import CUT, SILENT, Answer, FailingServer, closed_port, failing_server

SIGNATURE = "c2VzYW1l"


def told(status: int, code: str) -> Answer:
    """An error as Azure tells it: the code also as a header, since a HEAD has no body."""
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code} was told</Message></Error>'
    return Answer(status, body, {"Content-Type": "application/xml", "x-ms-error-code": code})


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[FailingServer, AzureStore]]:
    """One server and one client for all tests."""
    with failing_server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "ATTEMPTS", 2)
        patch.setattr(connections, "FIRST_PAUSE", 0.0)
        patch.setattr("holdfast.storage.azure.account.READ_TIMEOUT", 0.3)
        patch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)
        patch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", f"{server.endpoint}/account")
        patch.setenv("AZURE_STORAGE_ACCOUNT", "account")
        patch.setenv("AZURE_STORAGE_KEY", "a2V5")
        yield server, AzureStore("container", "prefix")


@pytest.fixture
def server(running: tuple[FailingServer, AzureStore]) -> FailingServer:
    running[0].reset()
    return running[0]


@pytest.fixture
def store(running: tuple[FailingServer, AzureStore]) -> AzureStore:
    return running[1]


def write_large(store: AzureStore) -> None:
    with store.open_write("a") as file:
        file.write(b"")


PLAIN_WRITES: list[Callable[[AzureStore], object]] = [
    lambda store: store.put("a", b"x"),
    lambda store: store.touch("a", b"x"),
    lambda store: store.delete("a"),
]
WRITES = [
    *PLAIN_WRITES,
    lambda store: store.create("a", b"x"),
    lambda store: store.replace("a", b"x", "0x1"),
    write_large,
]
READS: list[Callable[[AzureStore], object]] = [
    lambda store: store.get("a"),
    lambda store: store.head("a"),
    lambda store: store.list(""),
    lambda store: store.open_read("a"),
]
CERTAIN = [
    (told(401, "NoAuthenticationInformation"), StoreDenied),
    (told(403, "AuthenticationFailed"), StoreDenied),
    (told(403, "AuthorizationPermissionMismatch"), StoreDenied),
    (told(429, "TooManyRequests"), StoreUnavailable),
    (told(503, "ServerBusy"), StoreUnavailable),
    (told(409, "ContainerBeingDeleted"), StoreUnavailable),
    (told(404, "ContainerNotFound"), StoreError),
    (told(409, "BlobImmutableDueToPolicy"), StoreError),
    (told(412, "LeaseIdMissing"), StoreError),
    (told(400, "InvalidHeaderValue"), StoreError),
    (told(501, "NotImplemented"), ConditionNotSupported),
]
DOUBTFUL = [
    told(500, "InternalError"),
    told(500, "OperationTimedOut"),
    Answer(408),
    Answer(502),
    Answer(503),
    Answer(504, "<html>a proxy</html>"),
    CUT,
    SILENT,
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(("answer", "error"), CERTAIN)
def test_a_write_that_the_server_refused_certainly_did_nothing(
    server: FailingServer,
    store: AzureStore,
    write: Callable[[AzureStore], object],
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
    server: FailingServer, store: AzureStore, write: Callable[[AzureStore], object], answer: Answer
) -> None:
    server.answer = answer
    with pytest.raises(StoreOutcomeUnknown, match="look before trying again"):
        write(store)
    assert server.count == 1


@pytest.mark.slow
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("answer", [*DOUBTFUL, told(503, "ServerBusy"), told(429, "TooManyRequests")])
def test_a_read_without_an_answer_is_tried_again_then_unavailable(
    server: FailingServer, store: AzureStore, read: Callable[[AzureStore], object], answer: Answer
) -> None:
    server.answer = answer
    with pytest.raises(StoreUnavailable):
        read(store)
    assert server.count == 2


@pytest.mark.parametrize("read", READS)
def test_a_read_that_is_denied_is_not_tried_again(
    server: FailingServer, store: AzureStore, read: Callable[[AzureStore], object]
) -> None:
    server.answer = told(403, "AuthenticationFailed")
    with pytest.raises(StoreDenied, match="AZURE_STORAGE_"):
        read(store)
    assert server.count == 1


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


def test_what_is_not_there_is_said_so(server: FailingServer, store: AzureStore) -> None:
    server.answer = told(404, "BlobNotFound")
    for read in (store.get, store.head, store.open_read):
        with pytest.raises(ObjectNotFound):
            read("a")
    store.delete("a")


def test_a_container_that_is_not_there_is_said_so(server: FailingServer, store: AzureStore) -> None:
    server.answer = told(404, "ContainerNotFound")
    for use in [*READS, *WRITES]:
        with pytest.raises(StoreError, match="container does not exist"):
            use(store)


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
    monkeypatch.setattr(store, "head", lambda key: None)
    with pytest.raises(ObjectChanged):
        store.replace("a", b"", "0x1")


def test_a_server_that_says_yes_to_everybody_fails_the_probe(server: FailingServer, store: AzureStore) -> None:
    server.answer = Answer(201)
    assert store.probe_create_if_absent(threads=2) is False


def test_a_server_that_is_not_there_did_nothing(server: FailingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", f"http://127.0.0.1:{closed_port()}/account")
    store = AzureStore("container", "prefix")
    for use in [*WRITES, *READS]:
        with pytest.raises(StoreUnavailable, match="try again"):
            use(store)


def test_a_server_that_tells_no_time_is_refused(server: FailingServer, store: AzureStore) -> None:
    server.tells_time = False
    server.answer = Answer(200, '<?xml version="1.0"?><EnumerationResults><Blobs/></EnumerationResults>')
    server.answer.headers["Content-Type"] = "application/xml"
    with pytest.raises(StoreError, match="Date"):
        store.list("")


def test_a_silent_server_is_waited_for_no_longer_than_told(server: FailingServer, store: AzureStore) -> None:
    server.answer = SILENT
    began = time.monotonic()
    with pytest.raises(StoreOutcomeUnknown):
        store.put("a", b"")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("answer", [told(403, "AuthenticationFailed"), told(500, "InternalError"), CUT, None])
def test_a_shared_access_signature_is_in_no_error(
    server: FailingServer, monkeypatch: pytest.MonkeyPatch, answer: Answer | None
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", f"?sv=2024-11-04&sig={SIGNATURE}")
    if answer is None:
        monkeypatch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", f"http://127.0.0.1:{closed_port()}/account")
    else:
        server.answer = answer
    store = AzureStore("container", "prefix")
    assert SIGNATURE not in f"{store!r} {store.url} {store.endpoint} {store._account!r}"
    for use in [*PLAIN_WRITES, *READS]:
        with pytest.raises(StoreError) as caught:
            use(store)
        assert SIGNATURE not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
    if answer is not None:
        assert all(f"sig={SIGNATURE}" in path for path in server.paths)


def test_missing_credentials_are_said_so(server: FailingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nobody:
        def get_token(self, *scopes: str, **options: object) -> None:
            raise ClientAuthenticationError("DefaultAzureCredential failed to retrieve a token")

    monkeypatch.delenv("AZURE_STORAGE_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", "https://account.blob.core.windows.net")
    monkeypatch.setattr("azure.identity.DefaultAzureCredential", Nobody)
    store = open_store("az://container/x")
    with pytest.raises(StoreDenied, match="no Azure credentials"):
        store.put("a", b"")
    assert server.count == 0


def test_a_key_that_is_none_is_said_so_and_not_shown(server: FailingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", "sesame!")
    with pytest.raises(StoreDenied, match="no Azure credentials") as caught:
        open_store("az://container/x").put("a", b"")
    assert "sesame" not in str(caught.value)
    assert server.count == 0
