"""A server of another's on a free loopback port, for as long as a block lasts."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.common.free_ports import free_port

START_LIMIT = 60.0
"""Seconds the server may take to listen, on a machine that is busy."""


@contextlib.contextmanager
def running(
    command: Callable[[int], Sequence[str | Path]], environment: Mapping[str, str]
) -> Iterator[tuple[int, int]]:
    """Start a server, in a folder and a process group of its own; stop it when the block ends.

    :param command: to start it on a port
    :return: its port and its pid
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-server-") as work:
        log_path = Path(work) / "log"
        port = free_port()
        with log_path.open("wb") as log:
            server = subprocess.Popen(
                command(port),
                cwd=work,
                env={"PATH": os.environ["PATH"], "TMPDIR": work, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            _await_listening(server, port, log_path)
            yield port, server.pid
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _await_listening(server: subprocess.Popen[bytes], port: int, log_path: Path) -> None:
    deadline = time.monotonic() + START_LIMIT
    while server.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"the server did not start: {log_path.read_text(errors='replace')[-2000:]}")
