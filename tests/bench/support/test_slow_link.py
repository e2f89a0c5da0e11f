"""The way to a server that is far away."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Iterator

import pytest

from bench.support.slow_link import Distance, slow_link


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back all that it got from a connection, once that has ended."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                got = b"".join(iter(lambda: connection.recv(65536), b""))
                connection.sendall(got)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_all_bytes_come_there_and_back(echo: int) -> None:
    sent = bytes(range(256)) * 1000
    with (
        slow_link(echo, Distance(latency=0.0, rate=math.inf)) as port,
        socket.create_connection(("127.0.0.1", port), timeout=30) as client,
    ):
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        got = b"".join(iter(lambda: client.recv(65536), b""))
    assert got == sent
