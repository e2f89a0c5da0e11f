"""A gate on the way of one process to an S3 server: it holds that process at a request until a test opens it."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "expect"})


class StoreGate(ThreadingHTTPServer):
    """Hands every request on, as it came, to a server on this machine, but for those that wait while it is closed.

    A client's own limit of 30 s for an answer holds here, too: it then asks again, and waits again.

    :param target: the server's port.
    """

    daemon_threads = True

    def __init__(self, target: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self._closed = ""
        self._arrived = threading.Event()
        self._open = threading.Event()

    @property
    def environment(self) -> dict[str, str]:
        """The variable that leads a client through here."""
        return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_address[1]}"}

    @property
    def has_somebody(self) -> bool:
        """Say whether a request waits."""
        return self._arrived.is_set()

    @contextmanager
    def closed(self, requests: str) -> Iterator[None]:
        """Keep some requests waiting until the block ends.

        :param requests: what they look like (`PUT /bucket/key`); a regular expression, found anywhere.
        """
        self._open.clear()
        self._arrived.clear()
        self._closed = requests
        try:
            yield
        finally:
            self._closed = ""
            self._open.set()

    def pass_by(self, request: str) -> None:
        """Return when a request may go on."""
        if self._closed and re.search(self._closed, request):
            self._arrived.set()
            self._open.wait()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone while it waited."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: StoreGate
    disable_nagle_algorithm = True
    protocol_version = "HTTP/1.1"

    def _hand_on(self) -> None:
        in_chunks = self.headers.get("Transfer-Encoding") == "chunked"
        body = b"".join(self._chunks()) if in_chunks else self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.pass_by(f"{self.command} {self.path}")
        with closing(HTTPConnection("127.0.0.1", self.server.target)) as connection:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "expect":
                    connection.putheader(name, value)
            connection.endheaders(body, encode_chunked=in_chunks)
            self._hand_back(connection.getresponse())

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _hand_back(self, answer: HTTPResponse) -> None:
        length = answer.headers.get("Content-Length")
        body = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _hand_on  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def store_gate(endpoint: str) -> Iterator[StoreGate]:
    """Run a gate before a server until the block ends.

    :param endpoint: the server's URL.
    """
    gate = StoreGate(int(endpoint.rpartition(":")[2]))
    thread = threading.Thread(target=gate.serve_forever, args=(0.01,), name="gate")
    thread.start()
    try:
        yield gate
    finally:
        gate.shutdown()
        gate.server_close()
        thread.join()
