"""What each failure of Azure Blob Storage means, from a server that fails as told."""

from __future__ import annotations

import pytest
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError

from holdfast.storage import (
    ConditionNotSupported,
    ObjectArchived,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    open_store,
)
from holdfast.storage.azure.errors import azure_errors
from holdfast.storage.azure.store import AzureStore
from tests.support.stores.azure_requests import PLAIN_WRITES, READS, WRITES, told
from tests.support.stores.error_table import ErrorTable
from tests.support.stores.failing_server import CUT, SILENT, Answer, FailingServer, closed_port, untrusted

SIGNATURE = "c2VzYW1l"


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


class TestErrors(ErrorTable):
    refusals = CERTAIN
    doubts = DOUBTFUL
    busy = (told(503, "ServerBusy"), told(429, "TooManyRequests"))
    denials = (told(403, "AuthenticationFailed"),)
    advice = "AZURE_STORAGE_"
    writes = doubtful_writes = WRITES
    reads = READS


def test_what_is_not_there_is_said_so(server: FailingServer, store: AzureStore) -> None:
    server.answer = told(404, "BlobNotFound")
    for read in (store.get, store.head, store.open_read):
        with pytest.raises(ObjectNotFound):
            read("a")
    store.delete("a")


def test_a_blob_that_was_moved_to_the_archive_is_said_so(server: FailingServer, store: AzureStore) -> None:
    server.answer = told(409, "BlobArchived")
    with pytest.raises(ObjectArchived, match=r"'a'.* class Archive, .*set-tier"):
        store.get("a")


def test_a_server_that_is_not_there_did_nothing(server: FailingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", f"http://127.0.0.1:{closed_port()}/account")
    store = AzureStore("container", "prefix")
    for use in [*WRITES, *READS]:
        with pytest.raises(StoreUnavailable, match="try again"):
            use(store)


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


def test_a_server_with_an_expired_certificate_is_sent_nothing() -> None:
    with pytest.raises(StoreError, match="cannot be trusted, its certificate has expired") as caught:  # noqa: SIM117
        with azure_errors("write", "a", writes=True):
            raise ServiceRequestError("it failed", error=untrusted())
    assert type(caught.value) is StoreError
