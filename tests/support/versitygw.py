"""A real S3 server for tests, benchmarks and the demo: versitygw over a temporary folder."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCESS_KEY = "holdfast"
SECRET_KEY = "holdfast-for-tests-only"
REGION = "us-east-1"
START_LIMIT = 20.0
"""Seconds the server may take to answer."""

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class S3Server:
    """A running server.

    :param endpoint: its address, ``http://127.0.0.1:port``
    :param folder: what it serves: each folder in it is a bucket
    :param pid: its process, which leads a process group of its own
    """

    endpoint: str
    folder: Path
    pid: int

    @property
    def environment(self) -> dict[str, str]:
        """The ``AWS_*`` variables that lead a client here."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def make_bucket(self, name: str) -> None:
        """Create an empty bucket; its name needs at least three letters."""
        (self.folder / name).mkdir()


def find_versitygw() -> Path:
    """The server's program: ``HOLDFAST_VERSITYGW``, or what ``make setup-tests`` built."""
    named = os.environ.get("HOLDFAST_VERSITYGW")
    program = Path(named) if named else _ROOT / ".work" / "bin" / "versitygw"
    if not os.access(program, os.X_OK):
        raise FileNotFoundError(
            f"There is no versitygw (S3 server) at {program}: `make setup-tests` builds it, "
            "or set HOLDFAST_VERSITYGW to its path."
        )
    return program


@contextlib.contextmanager
def running_versitygw() -> Iterator[S3Server]:
    """Start the server on a free loopback port; stop it, and remove its files, when the block ends."""
    program = find_versitygw()
    with tempfile.TemporaryDirectory(prefix="holdfast-s3-") as work:
        folder = Path(work) / "buckets"
        folder.mkdir()
        log_path = Path(work) / "log"
        port = _free_port()
        with log_path.open("wb") as log:
            server = subprocess.Popen(
                [program, "--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet", "posix", folder],
                env={
                    "ROOT_ACCESS_KEY": ACCESS_KEY,
                    "ROOT_SECRET_KEY": SECRET_KEY,
                    "PATH": os.environ["PATH"],
                },
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            _await_answer(server, port, log_path)
            yield S3Server(endpoint=f"http://127.0.0.1:{port}", folder=folder, pid=server.pid)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_answer(server: subprocess.Popen[bytes], port: int, log_path: Path) -> None:
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
            return
        except OSError:
            time.sleep(0.05)
        finally:
            connection.close()
    raise RuntimeError(f"versitygw did not start: {log_path.read_text(errors='replace')[-2000:]}")
