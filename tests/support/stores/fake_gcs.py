"""The Google Cloud Storage emulator for tests: fake-gcs-server, with everything in memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import requests

from bench.support.loopback import running
from bench.support.missing import MissingError

_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class GcsServer:
    """A running emulator.

    :param endpoint: its address, ``http://127.0.0.1:port``
    :param pid: its process, which leads a process group of its own
    """

    endpoint: str
    pid: int

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead a client here."""
        return {"STORAGE_EMULATOR_HOST": self.endpoint}

    def make_bucket(self, name: str) -> None:
        """Create an empty bucket."""
        requests.post(f"{self.endpoint}/storage/v1/b", json={"name": name}, timeout=10).raise_for_status()


def find_fake_gcs() -> Path:
    """The emulator's program: ``HOLDFAST_FAKE_GCS``, or what ``make setup-tests`` built."""
    program = Path(os.environ.get("HOLDFAST_FAKE_GCS") or _ROOT / ".work" / "bin" / "fake-gcs-server")
    if not os.access(program, os.X_OK):
        raise MissingError(
            "fake-gcs",
            f"There is no fake-gcs-server (Google Cloud Storage emulator) at {program}: `make setup-tests` builds it.",
        )
    return program


@contextlib.contextmanager
def running_fake_gcs() -> Iterator[GcsServer]:
    """Start the emulator on a free loopback port; stop it when the block ends."""
    program = find_fake_gcs()

    def command(port: int) -> list[str | Path]:
        here = f"127.0.0.1:{port}"
        options = ["-host", "127.0.0.1", "-port", str(port), "-public-host", here, "-external-url", f"http://{here}"]
        return [program, "-backend", "memory", "-scheme", "http", "-log-level", "warn", *options]

    with running(command, {}) as (port, pid):
        yield GcsServer(endpoint=f"http://127.0.0.1:{port}", pid=pid)
