"""An upload in parts: the object is there whole once its block ends, and nothing of it after an error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.storage import ObjectExists, StoreDenied, StoreError, StoreOutcomeUnknown, StoreUnavailable
from holdfast.storage.s3.settings import S3Settings
from holdfast.storage.s3.store import S3Store
from tests.support.stores.fake_s3 import BUCKET, CUT, FakeS3, Fault, Received
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


LENGTHS = [b"", b"small", b"large" * 10]


def is_last(request: Received) -> bool:
    """Return whether a request makes the object appear, in one part or of several."""
    whole = request.method == "PUT" and "partNumber" not in request.query
    return whole or ("uploadId" in request.query and request.method == "POST")


@pytest.mark.parametrize("body", LENGTHS)
def test_the_request_that_makes_an_object_creates_it_only_if_its_key_is_free(server: FakeS3, body: bytes) -> None:
    store = S3Store(BUCKET)
    write_bulk(store, body)
    (last,) = (each for each in server.received if is_last(each))
    assert last.headers["if-none-match"] == "*"
    with pytest.raises(ObjectExists):
        write_bulk(store, b"another" * 3)
    assert (store.get("bulk"), server.parts) == (body, {})


@pytest.mark.parametrize("body", LENGTHS)
@pytest.mark.parametrize("fault", [Fault(500, "InternalError", lands=True), replace(CUT, lands=True)])
def test_an_object_whose_answer_was_lost_is_known_and_no_error(server: FakeS3, body: bytes, fault: Fault) -> None:
    server.judge = lambda number, request: fault if is_last(request) else None
    write_bulk(S3Store(BUCKET), body)
    assert S3Store(BUCKET).get("bulk") == body
    assert sum(map(is_last, server.received)) > 1  # the second found the first one's object


@pytest.mark.parametrize("body", LENGTHS)
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(500, "InternalError"), StoreOutcomeUnknown),
        (Fault(403, "AccessDenied"), StoreDenied),
        (Fault(409, "ConditionalRequestConflict"), StoreUnavailable),
    ],
)
def test_nothing_is_there_of_a_write_whose_end_failed(
    server: FakeS3, body: bytes, fault: Fault, error: type[StoreError]
) -> None:
    server.judge = lambda number, request: fault if is_last(request) else None
    with pytest.raises(error, match="bulk"):
        write_bulk(S3Store(BUCKET), body)
    assert (server.objects, server.parts) == ({}, {})


def test_a_taken_key_is_not_said_to_be_ours_where_nobody_may_look(server: FakeS3) -> None:
    store = S3Store(BUCKET)
    write_bulk(store, b"theirs")
    server.judge = lambda number, request: Fault(403, "AccessDenied") if request.method == "HEAD" else None
    with pytest.raises(StoreOutcomeUnknown, match="it is not known who made it"):
        write_bulk(store, b"ours")
    server.judge = lambda number, request: None
    assert store.get("bulk") == b"theirs"


@pytest.mark.parametrize("body", LENGTHS)
def test_a_server_that_does_not_know_the_condition_takes_bulk_data_without(server: FakeS3, body: bytes) -> None:
    server.judge = lambda number, request: Fault(501, "NotImplemented") if "if-none-match" in request.headers else None
    write_bulk(S3Store(BUCKET), body)
    assert S3Store(BUCKET).get("bulk") == body


def test_a_part_that_is_refused_ends_the_write(server: FakeS3) -> None:
    server.judge = lambda number, request: Fault(403, "AccessDenied") if "partNumber" in request.query else None
    with pytest.raises(StoreDenied):
        write_bulk(S3Store(BUCKET), b"large" * 10)
    assert (server.objects, server.parts) == ({}, {})
