"""A loopback HTTP server that fails as told."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from requests.exceptions import SSLError
from urllib3 import HTTPConnectionPool
from urllib3.exceptions import MaxRetryError
from urllib3.exceptions import SSLError as UrllibSSLError


@dataclass(frozen=True)
class Answer:
    """What every request is answered."""

    status: int
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)


CUT = Answer(0, "the connection is cut")
SILENT = Answer(0, "no answer comes")
FINE = Answer(200)


class FailingServer(ThreadingHTTPServer):
    """Gives the same answer to every request, unless told otherwise for a method, and counts them."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = FINE
        self.by_method: dict[str, Answer] = {}
        self.count = 0
        self.tells_time = True
        self.paths: list[str] = []
        self.release = threading.Event()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def reset(self) -> None:
        self.answer, self.count, self.tells_time = FINE, 0, True
        self.by_method.clear()
        self.paths.clear()


class _Handler(BaseHTTPRequestHandler):
    server: FailingServer
    disable_nagle_algorithm = True
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.server.count += 1
        self.server.paths.append(self.path)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = self.server.by_method.get(self.command, self.server.answer)
        if answer is CUT:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        if answer is SILENT:
            self.server.release.wait(10)
            self.close_connection = True
            return
        body = b"" if self.command == "HEAD" else answer.body.encode()
        self.send_response_only(answer.status)
        if self.server.tells_time:
            self.send_header("Date", formatdate(usegmt=True))
        for name, value in {**answer.headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _answer  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def failing_server() -> Iterator[FailingServer]:
    """Run the server on a free loopback port."""
    server = FailingServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.release.set()
        server.shutdown()
        server.server_close()
        thread.join()


def closed_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def untrusted() -> SSLError:
    """Return what requests raises for a server whose certificate has expired."""
    met = ssl.SSLCertVerificationError(1, "certificate verify failed: certificate has expired (_ssl.c:1006)")
    return SSLError(MaxRetryError(HTTPConnectionPool("blobs.example.com"), "/a?sig=sesame", UrllibSSLError(met)))
