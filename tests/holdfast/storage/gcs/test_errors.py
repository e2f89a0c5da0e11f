"""What each failure of Google Cloud Storage means, from a server that fails as told."""

from __future__ import annotations

import pytest
from google.auth.exceptions import DefaultCredentialsError

from holdfast.storage import (
    ConditionNotSupported,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    open_store,
)
from holdfast.storage.contract.parts import PART_BYTES
from holdfast.storage.gcs.errors import gcs_errors
from holdfast.storage.gcs.store import GcsStore
from tests.support.stores.error_table import ErrorTable
from tests.support.stores.failing_server import CUT, SILENT, Answer, FailingServer, closed_port, untrusted
from tests.support.stores.gcs_requests import (
    NO_BUCKET,
    READS,
    SESSION,
    WRITES,
    told,
    uploading,
    write_large,
)

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


class TestErrors(ErrorTable):
    refusals = CERTAIN
    doubts = DOUBTFUL
    busy = (told(429, "rateLimitExceeded"),)
    denials = (told(403, "forbidden"),)
    advice = "GOOGLE_APPLICATION_CREDENTIALS"
    writes = doubtful_writes = WRITES
    reads = READS


def test_what_is_not_there_is_said_so(server: FailingServer, store: GcsStore) -> None:
    server.answer = told(404, "notFound")
    for read in (store.get, store.head, store.open_read):
        with pytest.raises(ObjectNotFound):
            read("a")
    store.delete("a")


def test_a_bucket_that_is_not_there_is_said_so(server: FailingServer, store: GcsStore) -> None:
    server.answer = told(404, "notFound")
    for use in [lambda store: store.list(""), lambda store: store.put("a", b""), write_large]:
        with pytest.raises(StoreError, match="bucket does not exist"):
            use(store)


def test_a_server_that_is_not_there_did_nothing(server: FailingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{closed_port()}")
    store = GcsStore("container", "prefix")
    for use in [*WRITES, *READS]:
        with pytest.raises(StoreUnavailable, match="try again"):
            use(store)


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


def test_a_server_with_an_expired_certificate_is_sent_nothing() -> None:
    with pytest.raises(StoreError, match="cannot be trusted, its certificate has expired") as caught:  # noqa: SIM117
        with gcs_errors("write", "a", writes=True):
            raise untrusted()
    assert type(caught.value) is StoreError
