"""What a policy with `s3:if-none-match` does, before a real S3 server that does not know it."""

from __future__ import annotations

import contextlib
import http.client
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from bench.support.versitygw import S3Server

_REFUSED = (
    b"<Error><Code>AccessDenied</Code><Message>no policy allows s3:PutObject without If-None-Match</Message></Error>"
)


@dataclass
class Writes:
    """What came through.

    :param server: how the server is reached through this
    :param created: the keys of requests that make an object, with a condition; in the order they came
    :param excepted: those of an exception that came without one
    :param refused: those of the others
    """

    server: S3Server
    created: list[str] = field(default_factory=list)
    excepted: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    writes: Writes
    target: int
    exception: re.Pattern[str]


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def handle_expect_100(self) -> bool:
        going_on = super().handle_expect_100()
        self.wfile.flush()
        return going_on

    def _carry(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self._may_pass():
            self._answer(403, {"Content-Type": "application/xml"}, _REFUSED)
            return
        there = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=60)
        with contextlib.closing(there):
            # The name of the host is signed, and stays.
            there.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "expect":
                    there.putheader(name, value)
            there.endheaders(body or None)
            answer = there.getresponse()
            kept = {name: value for name, value in answer.getheaders() if name.lower() != "transfer-encoding"}
            self._answer(answer.status, kept, answer.read())

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _carry  # noqa: N815 - http.server's names

    def _may_pass(self) -> bool:
        """Return whether a request makes no object, makes it only if its key is free, or is an exception."""
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        # s3:ObjectCreationOperation, in the words of Amazon's reference: not the start of an upload, nor its parts.
        makes = (self.command == "PUT" and parts.path.count("/") > 1 and "partNumber" not in query) or (
            self.command == "POST" and "uploadId" in query
        )
        writes, key = self.server.writes, parts.path.lstrip("/").partition("/")[2]
        if not makes:
            return True
        if self.headers.get("If-None-Match") == "*":
            writes.created.append(key)
            return True
        is_excepted = self.server.exception.match(key) is not None
        (writes.excepted if is_excepted else writes.refused).append(key)
        return is_excepted

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers and status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def only_conditional_writes(server: S3Server, exception: str) -> Iterator[Writes]:
    """Stand before a server, and refuse what makes an object without `If-None-Match`; gone when the block ends.

    :param exception: a pattern of keys that may be written without it
    """
    gate = _Server(("127.0.0.1", 0), _Handler)
    gate.target = urlsplit(server.endpoint).port or 0
    gate.exception = re.compile(exception)
    gate.writes = Writes(replace(server, endpoint=f"http://127.0.0.1:{gate.server_address[1]}"))
    thread = threading.Thread(target=gate.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield gate.writes
    finally:
        gate.shutdown()
        gate.server_close()
        thread.join()
