"""Serving of the metrics over HTTP, for a Prometheus that scrapes them.

They are collected at intervals, and every scrape gets the newest text at once, even while a store or server hangs.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from holdfast.common.errors import HoldfastError, UsageError, sentence
from holdfast.metrics.exposition import CONTENT_TYPE, render

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from holdfast.metrics.collect import Collected

PATH = "/metrics"

_CLIENT_S = 10.0
"""Limit for a client's request."""


@dataclass(frozen=True)
class ListenAddress:
    """The address to listen at; port 0 means any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> ListenAddress:
        """Parse `HOST:PORT`, `[IPv6]:PORT`, `:PORT` or `PORT`, on the loopback address; raises UsageError."""
        match = re.fullmatch(r"(?:(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:\[\]]*)):)?(?P<port>[0-9]{1,5})", text)
        if match is None or int(match["port"]) > 65535:
            raise UsageError(
                f"cannot read {text!r} as an address to listen at: write HOST:PORT, such as 127.0.0.1:9464"
            )
        return cls(match["six"] or match["host"] or "127.0.0.1", int(match["port"]))


@dataclass
class _Page:
    """The newest text; None before the first collection."""

    body: bytes | None = None


class _Handler(BaseHTTPRequestHandler):
    timeout = _CLIENT_S
    server_version, sys_version = "holdfast", ""
    page = _Page()

    def do_GET(self) -> None:
        """Answer with the newest text."""
        if self.path.partition("?")[0] != PATH:
            self._answer(404, f"the metrics are at {PATH}\n".encode(), "text/plain; charset=utf-8")
        elif (body := self.page.body) is None:
            self._answer(503, b"the metrics are being collected for the first time\n", "text/plain; charset=utf-8")
        else:
            self._answer(200, body, CONTENT_TYPE)

    def _answer(self, code: int, body: bytes, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: scrapes come every few seconds."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing about a client that ends its request early."""


class _Server6(_Server):
    address_family = socket.AF_INET6


@dataclass
class MetricsServer:
    """A server of the newest text, listening within its `with`; `url` is that of the metrics."""

    address: ListenAddress
    url: str = ""
    _page: _Page = field(default_factory=_Page)

    def publish(self, body: bytes) -> None:
        """Answer with this text from now on."""
        self._page.body = body

    def __enter__(self) -> Self:
        """Listen; raises HoldfastError if the port is taken, or the address is not this machine's."""
        six = ":" in self.address.host
        handler = type("Handler", (_Handler,), {"page": self._page})
        try:
            self._server = (_Server6 if six else _Server)((self.address.host, self.address.port), handler)
        except OSError as error:
            raise HoldfastError(
                f"cannot listen at {self.address.host}, port {self.address.port}: {error.strerror}. "
                "Choose another port, or stop the process that listens there"
            ) from error
        host = f"[{self.address.host}]" if six else self.address.host
        self.url = f"http://{host}:{self._server.server_address[1]}{PATH}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(
    address: ListenAddress,
    collected: Callable[[], Collected],
    *,
    every_s: float,
    say: Callable[[str], None],
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Serve the metrics until the process is stopped.

    :param every_s: seconds between two collections.
    :param say: takes their URL, and each problem once while it lasts.
    :raises HoldfastError: it cannot listen there.
    """
    known: set[str] = set()
    with MetricsServer(address) as server:
        say(f"metrics at {server.url}, collected every {every_s:g} s")
        while True:
            problems = _publish(server, collected)
            for problem in sorted(problems - known):
                say(problem)
            if known - problems and not problems:
                say("everything can be read again")
            known = problems
            pause(every_s)


def _publish(server: MetricsServer, collected: Callable[[], Collected]) -> set[str]:
    """Collect and publish; return the problems. If all of it failed, the old text, with its time, stays."""
    try:
        collection = collected()
        server.publish(render(collection.samples))
    except Exception as error:  # noqa: BLE001 - one failed collection must not end the server
        return {f"the metrics could not be collected: {sentence(error)}"}
    return set(collection.problems)
