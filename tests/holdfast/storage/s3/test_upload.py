"""An upload in parts: the object is there whole once its block ends, and nothing of it after an error."""

from __future__ import annotations

import pytest

from holdfast.storage import StoreDenied, StoreError, StoreOutcomeUnknown
from holdfast.storage.s3.settings import S3Settings
from holdfast.storage.s3.store import S3Store
from tests.support.stores.fake_s3 import BUCKET, FakeS3, Fault, Received
from tests.support.stores.s3_requests import write_bulk

pytestmark = pytest.mark.slow


@pytest.fixture
def server(plain_server: FakeS3) -> FakeS3:
    return plain_server


def test_encrypted_bulk_data_is_what_was_written(server: FakeS3) -> None:
    store = S3Store(BUCKET, settings=S3Settings(sse="AES256"))
    with store.open_write("a") as file:
        for piece in (b"", b"123456789", b"0", memoryview(b"abcdefghijklmnopqrstuvwxyz"), b"!"):
            file.write(piece)
    assert store.get("a") == b"1234567890abcdefghijklmnopqrstuvwxyz!"
    assert len([each for each in server.received if "partNumber" in each.query]) == 4


@pytest.mark.parametrize("body", [b"small", b"large" * 10])
def test_nothing_stays_of_an_encrypted_write_that_failed(server: FakeS3, body: bytes) -> None:
    store = S3Store(BUCKET, settings=S3Settings(sse="AES256"))

    def write() -> None:
        with store.open_write("a") as file:
            file.write(body)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert (server.objects, server.parts) == ({}, {})


@pytest.mark.parametrize("body", [b"", b"small", b"large" * 10])
@pytest.mark.parametrize(
    ("fault", "error"),
    [(Fault(500, "InternalError", lands=True), StoreOutcomeUnknown), (Fault(403, "AccessDenied"), StoreDenied)],
)
def test_an_encrypted_write_whose_end_failed_is_taken_back(
    server: FakeS3, body: bytes, fault: Fault, error: type[StoreError]
) -> None:
    store = S3Store(BUCKET, settings=S3Settings(sse="AES256"))

    def judge(number: int, request: Received) -> Fault | None:
        ends = "uploadId" in request.query and request.method == "POST" if body else request.method == "PUT"
        return fault if ends else None

    server.judge = judge
    with pytest.raises(error, match="bulk"):
        write_bulk(store, body)
    assert (server.objects, server.parts) == ({}, {})
