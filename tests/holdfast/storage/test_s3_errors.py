"""What each failure of an S3 server means, from a server that fails as told."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from holdfast.storage import (
    ConditionNotSupported,
    ObjectExists,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreOutcomeUnknown,
    StoreUnavailable,
    open_store,
)
from holdfast.storage import s3 as s3_module
from holdfast.storage.s3 import S3Store

Answer = tuple[int, str]
CUT: Answer = (0, "the connection is cut")
SILENT: Answer = (0, "no answer comes")


class FailingServer(ThreadingHTTPServer):
    """Gives the same answer to every request, and counts them."""

    daemon_threads = True
    answer: Answer = (200, "")
    count = 0
    date: str | None = None
    release: threading.Event


class Handler(BaseHTTPRequestHandler):
    server: FailingServer
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.server.count += 1
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.answer == CUT:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        if self.server.answer == SILENT:
            self.server.release.wait(10)
            self.close_connection = True
            return
        status, code = self.server.answer
        body = f"<Error><Code>{code}</Code><Message>{code} was told</Message></Error>".encode() if code else b""
        if self.command == "HEAD":
            body = b""
        self.send_response_only(status)
        if self.server.date is not None:
            self.send_header("Date", self.server.date)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _answer  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[FailingServer, S3Store]]:
    """One server and one client for all tests: making a client takes longer than a test."""
    server = FailingServer(("127.0.0.1", 0), Handler)
    server.release = threading.Event()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        # Waits are the SDK's and ours to choose: none is needed here.
        patch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
        patch.setattr(s3_module, "READ_ATTEMPTS", 2)
        patch.setattr(s3_module, "READ_TIMEOUT", 0.3)
        patch.setattr(s3_module, "CREATE_PAUSE", 0.0)
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_address[1]}")
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        try:
            yield server, S3Store("bucket", "prefix")
        finally:
            server.release.set()
            server.shutdown()
            server.server_close()
            thread.join()


@pytest.fixture
def server(running: tuple[FailingServer, S3Store]) -> FailingServer:
    running[0].answer, running[0].count = (200, ""), 0
    return running[0]


@pytest.fixture
def store(running: tuple[FailingServer, S3Store]) -> S3Store:
    return running[1]


WRITES: list[Callable[[S3Store], object]] = [
    lambda store: store.put("a", b"x"),
    lambda store: store.touch("a", b"x"),
    lambda store: store.delete("a"),
]
READS: list[Callable[[S3Store], object]] = [
    lambda store: store.get("a"),
    lambda store: store.head("a"),
    lambda store: store.list(""),
]
CERTAIN = [
    ((401, "Unauthorized"), StoreDenied),
    ((403, "AccessDenied"), StoreDenied),
    ((403, "InvalidAccessKeyId"), StoreDenied),
    ((429, "TooManyRequests"), StoreUnavailable),
    ((503, "SlowDown"), StoreUnavailable),
    ((400, "RequestTimeout"), StoreUnavailable),
    ((404, "NoSuchBucket"), StoreError),
    ((400, "InvalidRequest"), StoreError),
]
DOUBTFUL: list[Answer] = [(500, "InternalError"), (502, ""), (503, ""), (504, ""), CUT, SILENT]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(("answer", "error"), CERTAIN)
def test_a_write_that_the_server_refused_certainly_did_nothing(
    server: FailingServer, store: S3Store, write: Callable[[S3Store], object], answer: Answer, error: type[StoreError]
) -> None:
    server.answer = answer
    with pytest.raises(error) as caught:
        write(store)
    assert type(caught.value) is error
    assert server.count == 1


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("answer", DOUBTFUL)
def test_a_write_without_a_clear_answer_is_unknown_and_never_sent_again(
    server: FailingServer, store: S3Store, write: Callable[[S3Store], object], answer: Answer
) -> None:
    server.answer = answer
    with pytest.raises(StoreOutcomeUnknown, match="look before trying again"):
        write(store)
    assert server.count == 1


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("answer", [*DOUBTFUL, (503, "SlowDown"), (429, "TooManyRequests")])
def test_a_read_without_an_answer_is_tried_again_then_unavailable(
    server: FailingServer, store: S3Store, read: Callable[[S3Store], object], answer: Answer
) -> None:
    server.answer = answer
    with pytest.raises(StoreUnavailable):
        read(store)
    assert server.count == 2


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("code", ["AccessDenied", "SignatureDoesNotMatch"])
def test_a_read_that_is_denied_is_not_tried_again(
    server: FailingServer, store: S3Store, read: Callable[[S3Store], object], code: str
) -> None:
    server.answer = (403, code)
    with pytest.raises(StoreDenied):
        read(store)
    assert server.count == 1


def test_what_is_not_there_is_said_so(server: FailingServer, store: S3Store) -> None:
    server.answer = (404, "NoSuchKey")
    for read in READS[:2]:
        with pytest.raises(ObjectNotFound):
            read(store)
    store.delete("a")


def test_a_bucket_that_is_not_there_is_said_so(server: FailingServer, store: S3Store) -> None:
    server.answer = (404, "NoSuchBucket")
    with pytest.raises(StoreError, match="bucket does not exist"):
        store.list("")


def test_a_taken_key_is_told_from_a_rival_under_way(server: FailingServer, store: S3Store) -> None:
    server.answer = (412, "PreconditionFailed")
    with pytest.raises(ObjectExists):
        store.create("a", b"")
    assert server.count == 1
    server.answer = (409, "ConditionalRequestConflict")
    with pytest.raises(StoreUnavailable):
        store.create("a", b"")
    assert server.count == 1 + s3_module.CREATE_ATTEMPTS


def test_a_create_without_a_clear_answer_is_unknown_and_never_sent_again(server: FailingServer, store: S3Store) -> None:
    server.answer = (500, "InternalError")
    with pytest.raises(StoreOutcomeUnknown):
        store.create("a", b"")
    assert server.count == 1


def test_a_server_without_create_if_absent_fails_the_probe(server: FailingServer, store: S3Store) -> None:
    server.answer = (501, "NotImplemented")
    with pytest.raises(ConditionNotSupported):
        store.create("a", b"")
    assert store.probe_create_if_absent(threads=2) is False


def test_a_server_that_says_yes_to_everybody_fails_the_probe(server: FailingServer, store: S3Store) -> None:
    assert store.probe_create_if_absent(threads=2) is False


def test_a_server_that_is_not_there_did_nothing(server: FailingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{closed.getsockname()[1]}")
        store = S3Store("bucket", "prefix")
        for use in [*WRITES, *READS]:
            with pytest.raises(StoreUnavailable, match="connect"):
                use(store)


def test_a_server_that_tells_no_time_is_refused(server: FailingServer, store: S3Store) -> None:
    with pytest.raises(StoreError, match="Date"):
        store.list("")


def test_missing_credentials_are_said_so(
    server: FailingServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(StoreDenied, match="AWS_ACCESS_KEY_ID"):
        open_store("s3://bucket/x").put("a", b"")
    assert server.count == 0


def test_a_silent_server_is_waited_for_no_longer_than_told(server: FailingServer, store: S3Store) -> None:
    server.answer = SILENT
    began = time.monotonic()
    with pytest.raises(StoreOutcomeUnknown):
        store.put("a", b"")
    assert time.monotonic() - began < 5
