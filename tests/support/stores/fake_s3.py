"""An S3 server in memory on a loopback port, which records every request and fails where it is told to."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"


@dataclass(frozen=True)
class Fault:
    """What happens to a request.

    :param status: of the error answer; 0 where no answer comes
    :param code: S3's word for the error; empty for an answer without a document, such as a proxy's
    :param silent: the connection stays open without an answer, instead of being cut
    :param lands: the request takes effect all the same
    :param torn: what it is answered ends in its middle
    :param more: of the document, as XML
    """

    status: int
    code: str = ""
    silent: bool = False
    lands: bool = False
    torn: bool = False
    more: str = ""


TORN = Fault(200, lands=True, torn=True)
CUT = Fault(0)
SILENT = Fault(0, silent=True)


@dataclass(frozen=True)
class Received:
    """One request as it came.

    :param key: of the object; empty for a listing
    """

    method: str
    host: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]

    @property
    def key(self) -> str:
        return unquote(self.path).removeprefix(f"/{BUCKET}").lstrip("/")

    @property
    def metadata(self) -> dict[str, str]:
        return {name: value for name, value in self.headers.items() if name.startswith("x-amz-meta-")}


Judge = Callable[[int, Received], Fault | None]
"""Gets each request, and its number from 0; returns what goes wrong with it."""


@dataclass
class FakeS3:
    """The server's state.

    :param objects: body and time by key
    :param metadata: what clients said of objects, by key
    :param date: whether answers carry a Date
    :param lifecycle: the rules of the bucket, as XML; "" for none
    :param clock: the server's
    """

    endpoint: str
    judge: Judge = lambda number, request: None
    objects: dict[str, tuple[bytes, datetime]] = field(default_factory=dict)
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    parts: dict[int, bytes] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    date: bool = True
    lifecycle: str = ""
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    stopping: threading.Event = field(default_factory=threading.Event)
    _of_upload: dict[str, str] = field(default_factory=dict)

    def fail(self, fault: Fault) -> None:
        """Let every request fail in this way."""
        self.judge = lambda number, request: fault

    def reset(self) -> None:
        """Forget everything."""
        self.judge, self.date, self.clock = (lambda number, request: None), True, lambda: datetime.now(UTC)
        self.lifecycle = ""
        self.objects.clear()
        self.metadata.clear()
        self.parts.clear()
        self.received.clear()

    def perform(self, request: Received, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        """What a working server does: status, document and headers of its answer."""
        if request.method == "GET" and "versioning" in request.query:
            return 200, b"<VersioningConfiguration></VersioningConfiguration>", {}
        if request.method == "GET" and "lifecycle" in request.query:
            rules = f"<LifecycleConfiguration>{self.lifecycle}</LifecycleConfiguration>".encode()
            return (200, rules, {}) if self.lifecycle else _error(404, "NoSuchLifecycleConfiguration")
        if request.method == "GET" and not request.key:
            return 200, self._list(request.query), {}
        if request.method in {"GET", "HEAD"}:
            return self._read(request)
        if "delete" in request.query:
            for key in re.findall(r"<Key>(.*?)</Key>", body.decode()):
                self.objects.pop(key, None)
            return 200, b"<DeleteResult></DeleteResult>", {}
        if "uploadId" in request.query or "uploads" in request.query:
            return self._multipart(request, body)
        if request.method == "PUT":
            if request.headers.get("if-none-match") == "*" and request.key in self.objects:
                return _error(412, "PreconditionFailed")
            self.objects[request.key] = (body, self.clock())
            self.metadata[request.key] = request.metadata
            return 200, b"", {"ETag": '"etag"'}
        self.objects.pop(request.key, None)
        return 204, b"", {}

    def _list(self, query: dict[str, str]) -> bytes:
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{time:%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
            f"<ETag>&quot;etag&quot;</ETag><Size>{len(body)}</Size></Contents>"
            for key, (body, time) in sorted(self.objects.items())
            if key.startswith(query.get("prefix", ""))
        )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>".encode()

    def _read(self, request: Received) -> tuple[int, bytes, dict[str, str]]:
        if request.key not in self.objects:
            return _error(404, "NoSuchKey")
        body, time = self.objects[request.key]
        headers = {"ETag": '"etag"', "Last-Modified": format_datetime(time, usegmt=True)}
        headers |= self.metadata.get(request.key, {})
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("range", ""))
        if wanted is None:
            return 200, body, headers
        first, last = int(wanted[1]), min(int(wanted[2]), len(body) - 1)
        return 206, body[first : last + 1], headers | {"Content-Range": f"bytes {first}-{last}/{len(body)}"}

    def _multipart(self, request: Received, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        if request.method == "PUT":
            source = unquote(request.headers.get("x-amz-copy-source", "")).removeprefix(f"{BUCKET}/")
            if source:
                if source not in self.objects:
                    return _error(404, "NoSuchKey")
                body, _ = self.objects[source]
            self.parts[int(request.query["partNumber"])] = body
            return (200, _copied(body), {}) if source else (200, b"", {"ETag": '"part"'})
        if request.method == "DELETE":
            self.parts.clear()
            return 204, b"", {}
        if "uploads" in request.query:
            self._of_upload = request.metadata
            return 200, b"<Result><UploadId>1</UploadId></Result>", {}
        if request.headers.get("if-none-match") == "*" and request.key in self.objects:
            return _error(412, "PreconditionFailed")
        if not self.parts:
            return _error(404, "NoSuchUpload")
        self.objects[request.key] = (b"".join(self.parts[number] for number in sorted(self.parts)), self.clock())
        self.metadata[request.key] = self._of_upload
        self.parts.clear()
        return 200, b"<Result><ETag>whole</ETag></Result>", {}


def _copied(body: bytes) -> bytes:
    checksum = base64.b64encode(hashlib.sha256(body).digest()).decode()
    return f"<Result><ETag>part</ETag><ChecksumSHA256>{checksum}</ChecksumSHA256></Result>".encode()


def _error(status: int, code: str, more: str = "") -> tuple[int, bytes, dict[str, str]]:
    document = f"<Error><Code>{code}</Code><Message>{code} was told</Message>{more}</Error>" if code else ""
    return status, document.encode(), {}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    fake: FakeS3


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer in two pieces waits for the acknowledgement of the first

    def handle_expect_100(self) -> bool:
        going_on = super().handle_expect_100()
        self.wfile.flush()
        return going_on

    def _answer(self) -> None:
        fake = self.server.fake
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Received(self.command, headers.get("host", ""), parts.path, query, headers)
        number = len(fake.received)
        fake.received.append(request)
        fault = fake.judge(number, request)
        if fault is None or fault.lands:
            status, document, more = fake.perform(request, body)
        if fault is not None and fault.status == 0:
            self._say_nothing(fault)
            return
        if fault is not None and not fault.torn:
            status, document, more = _error(fault.status, fault.code, fault.more)
        self._send(status, document, more, torn=fault is not None and fault.torn)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _answer  # noqa: N815 - http.server's names

    def _say_nothing(self, fault: Fault) -> None:
        if fault.silent:
            self.server.fake.stopping.wait(10)
        else:
            self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def _send(self, status: int, document: bytes, headers: dict[str, str], *, torn: bool) -> None:
        self.send_response_only(status)
        if self.server.fake.date:
            self.send_header("Date", format_datetime(self.server.fake.clock(), usegmt=True))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(document)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(document[: len(document) // 2] if torn else document)
        self.close_connection = self.close_connection or torn

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def running_fake_s3() -> Iterator[FakeS3]:
    """Start the server on a free port of 127.0.0.1; it is gone when the block ends."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.fake = FakeS3(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.fake
    finally:
        server.fake.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()
