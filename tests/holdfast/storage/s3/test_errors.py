"""What each failure of an S3 server means, from a server that fails as told."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.storage import (
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    open_store,
)
from holdfast.storage.s3.store import S3Store
from tests.support.stores.error_table import ErrorTable
from tests.support.stores.fake_s3 import CUT, SILENT, TORN, FakeS3, Fault
from tests.support.stores.s3_requests import ATTEMPTS

WRITES: list[Callable[[S3Store], object]] = [
    lambda store: store.put("a", b"x"),
    lambda store: store.touch("a", b"x"),
    lambda store: store.delete("a"),
    lambda store: store.replace("a", b"x", "etag"),
]
READS: list[Callable[[S3Store], object]] = [
    lambda store: store.get("a"),
    lambda store: store.head("a"),
    lambda store: store.list(""),
]
CERTAIN = [
    (Fault(401, "Unauthorized"), StoreDenied),
    (Fault(403, "AccessDenied"), StoreDenied),
    (Fault(403, "InvalidAccessKeyId"), StoreDenied),
    (Fault(400, "ExpiredToken"), StoreDenied),
    (Fault(429, "TooManyRequests"), StoreUnavailable),
    (Fault(503, "SlowDown"), StoreUnavailable),
    (Fault(400, "RequestTimeout"), StoreUnavailable),
    (Fault(403, "RequestTimeTooSkewed"), StoreDenied),  # our clock is off by a day, say
    (Fault(404, "NoSuchBucket"), StoreError),
    (Fault(400, "InvalidRequest"), StoreError),
]
DOUBTFUL: list[Fault] = [Fault(500, "InternalError"), Fault(502), Fault(503), Fault(504), CUT, SILENT]


class TestErrors(ErrorTable):
    refusals = CERTAIN
    doubts = DOUBTFUL
    busy = (Fault(503, "SlowDown"), Fault(429, "TooManyRequests"))
    denials = (Fault(403, "AccessDenied"), Fault(403, "SignatureDoesNotMatch"))
    advice = "AWS_"
    writes = WRITES
    # A create that certainly did nothing is tried again by us, because a rival's may be under way.
    doubtful_writes = (*WRITES, lambda store: store.create("a", b"x"))
    reads = READS

    @staticmethod
    def fail(server: FakeS3, answer: Fault) -> None:
        server.fail(answer)

    @staticmethod
    def count(server: FakeS3) -> int:
        return len(server.received)


def test_an_answer_that_ends_in_its_middle_is_asked_for_again_then_unavailable(server: FakeS3, store: S3Store) -> None:
    store.put("a", b"whole")
    server.received.clear()
    server.judge = lambda number, request: TORN if number < 1 else None
    assert store.get("a") == b"whole"
    assert len(server.received) == 2
    server.received.clear()
    server.fail(TORN)
    with pytest.raises(StoreUnavailable, match="Could not read 'a'"):
        store.get("a")
    assert len(server.received) == ATTEMPTS


def test_what_is_not_there_is_said_so(server: FakeS3, store: S3Store) -> None:
    server.fail(Fault(404, "NoSuchKey"))
    for read in READS[:2]:
        with pytest.raises(ObjectNotFound):
            read(store)
    store.delete("a")


@pytest.mark.parametrize("code", ["NoSuchBucket", ""])
def test_a_bucket_that_is_not_there_is_said_so(server: FakeS3, store: S3Store, code: str) -> None:
    server.fail(Fault(404, code))
    with pytest.raises(StoreError, match="bucket does not exist"):
        store.list("")


def test_a_server_that_is_not_there_did_nothing(server: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{closed.getsockname()[1]}")
        store = S3Store("bucket", "prefix")
        for use in [*WRITES, *READS]:
            with pytest.raises(StoreUnavailable, match="connect"):
                use(store)


def test_missing_credentials_are_said_so(server: FakeS3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(StoreDenied, match="AWS_ACCESS_KEY_ID"):
        open_store("s3://bucket/x").put("a", b"")
    assert len(server.received) == 0
