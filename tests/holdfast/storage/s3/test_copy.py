"""Objects that the server copies itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from bench.support.versitygw import S3Server
from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.files.transfer import send_file
from holdfast.common.errors import DamagedError
from holdfast.storage import open_store
from holdfast.storage.contract.patience import Patience
from holdfast.storage.s3.store import S3Store
from locking.store import ObjectExists, ObjectNotFound
from tests.support.stores.fake_s3 import BUCKET, CUT, FakeS3, Fault, running_fake_s3
from tests.support.stores.moto_server import BUCKET as MOTO_BUCKET
from tests.support.stores.moto_server import running_moto

BODY = bytes(range(256)) * 40_000
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture(scope="module")
def running() -> Iterator[FakeS3]:
    with running_fake_s3() as server:
        yield server


@pytest.fixture
def server(running: FakeS3, monkeypatch: pytest.MonkeyPatch) -> FakeS3:
    running.reset()
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", running.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    return running


@pytest.fixture
def near(server: FakeS3) -> S3Store:
    store = S3Store(BUCKET, "near")
    store.put("data/a", BODY)
    server.received.clear()
    return store


def asked(server: FakeS3) -> list[str]:
    """Return what was asked of the server, in a word each."""
    words = {"uploads": "begin", "partNumber": "copy"}
    found = []
    for each in server.received:
        word = next((word for name, word in words.items() if name in each.query), "complete")
        found.append("give up" if each.method == "DELETE" else "read" if each.method == "GET" else word)
    return found


def test_an_object_is_copied_by_its_server_and_no_byte_comes_through_here(server: FakeS3, near: S3Store) -> None:
    far = S3Store(BUCKET, "far")
    assert far.copy_from(near, "data/a", len(BODY), SHA256)
    assert asked(server) == ["begin", "copy", "complete"]
    assert far.get("data/a") == BODY


def test_what_has_another_checksum_does_not_appear(server: FakeS3, near: S3Store) -> None:
    far = S3Store(BUCKET, "far")
    assert not far.copy_from(near, "data/a", len(BODY), hashlib.sha256(b"other").hexdigest())
    assert asked(server) == ["begin", "copy", "give up"]
    with pytest.raises(ObjectNotFound):
        far.get("data/a")
    assert far.copy_from(near, "data/a", len(BODY), SHA256)  # the next one is asked for all the same


def test_a_key_that_is_taken_keeps_what_it_has(server: FakeS3, near: S3Store) -> None:
    far = S3Store(BUCKET, "far")
    far.put("data/a", b"mine")
    with pytest.raises(ObjectExists):
        far.copy_from(near, "data/a", len(BODY), SHA256)
    assert far.get("data/a") == b"mine"
    assert not server.parts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "again"), [(Fault(403, "AccessDenied"), False), (Fault(501, "NotImplemented"), False), (CUT, False),
                         (Fault(503, "SlowDown"), True), (Fault(404, "NoSuchKey"), True)]
)  # fmt: skip
@pytest.mark.parametrize("step", [pytest.param("uploads", marks=pytest.mark.exhaustive), "partNumber"])
def test_a_server_that_does_not_copy_is_not_asked_again_and_one_that_has_no_time_is(
    server: FakeS3, near: S3Store, fault: Fault, again: bool, step: str
) -> None:
    far = S3Store(BUCKET, "far", patience=Patience(5.0, 30.0, attempts=1))
    server.judge = lambda number, request: fault if step in request.query else None
    assert not far.copy_from(near, "data/a", len(BODY), SHA256)
    assert not server.parts
    server.judge = lambda number, request: None
    assert far.copy_from(near, "data/a", len(BODY), SHA256) is again
    assert again is ("far/data/a" in server.objects)


def ends_with(server: FakeS3, fault: Fault) -> None:
    server.judge = lambda number, request: fault if request.method == "POST" and "uploadId" in request.query else None


@pytest.mark.parametrize(
    ("fault", "is_there"),
    [
        (Fault(500, "InternalError", lands=True), True),
        (Fault(500, "InternalError", lands=False), False),
        (Fault(503, "SlowDown"), False),
    ],
)
def test_where_the_end_has_no_good_answer_the_object_is_looked_for(
    server: FakeS3, near: S3Store, fault: Fault, is_there: bool
) -> None:
    far = S3Store(BUCKET, "far")
    ends_with(server, fault)
    assert far.copy_from(near, "data/a", len(BODY), SHA256) is is_there
    assert ("far/data/a" in server.objects) is is_there
    assert not server.parts


def test_an_object_of_another_attempt_is_not_taken_for_this_ones(server: FakeS3, near: S3Store) -> None:
    far = S3Store(BUCKET, "far")
    far.put("data/a", b"mine")
    ends_with(server, Fault(500, "InternalError", lands=False))
    assert not far.copy_from(near, "data/a", len(BODY), SHA256)
    assert far.get("data/a") == b"mine"


def test_a_server_without_conditions_is_sent_the_bytes(server: FakeS3, near: S3Store) -> None:
    far = S3Store(BUCKET, "far")
    fault = Fault(501, "NotImplemented")
    server.judge = lambda number, request: fault if request.method == "POST" and "uploadId" in request.query else None
    assert not far.copy_from(near, "data/a", len(BODY), SHA256)
    assert not server.parts
    assert "far/data/a" not in server.objects


def test_nothing_is_asked_of_a_store_elsewhere(server: FakeS3, near: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    far = S3Store(BUCKET, "far")
    assert not far.copy_from(near, "data/a", len(BODY), SHA256)
    assert not server.received


@pytest.mark.service
def test_a_real_server_copies_between_two_buckets(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    for bucket in ("copied-from", "copied-to"):
        s3_server.make_bucket(bucket)
    near, far = open_store("s3://copied-from/an/archive"), open_store("s3://copied-to/archive")
    file = write_bytes(near, "data/a.parquet", BODY)
    with monkeypatch.context() as patch:
        patch.setattr(S3Store, "open_read", None)  # the bytes do not pass through here
        send_file(near, far, file)
    assert far.get(file.path) == BODY
    with pytest.raises(ObjectExists):
        send_file(near, far, file)
    damaged = file.model_copy(update={"sha256": hashlib.sha256(b"what was written").hexdigest()})
    far.delete(file.path)
    with pytest.raises(DamagedError, match="another checksum"):
        send_file(near, far, damaged)
    assert not far.list("").objects
    raw = S3Store("copied-to")._reader
    assert not raw.list_multipart_uploads(Bucket="copied-to").get("Uploads")


@pytest.mark.service
def test_any_other_server_is_sent_the_bytes_where_it_tells_no_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_moto() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        near, far = S3Store(MOTO_BUCKET, "near"), S3Store(MOTO_BUCKET, "far")
        file = write_bytes(near, "data/a.parquet", BODY)
        assert not far.copy_from(near, file.path, file.size, file.sha256)
        send_file(near, far, file)
        assert far.get(file.path) == BODY
