"""A real S3 server for tests, benchmarks and the demo: versitygw over a temporary folder."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.support.loopback import running
from bench.support.missing import MissingError

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCESS_KEY = "holdfast"
SECRET_KEY = "holdfast-for-tests-only"  # noqa: S105 - of a server that only this machine reaches
REGION = "us-east-1"

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class S3Server:
    """A running server.

    :param endpoint: its address, ``http://127.0.0.1:port`` or ``https://…``
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
        raise MissingError(
            "versitygw",
            f"There is no versitygw (S3 server) at {program}: `make setup-tests` builds it, "
            "or set HOLDFAST_VERSITYGW to its path.",
        )
    return program


@contextlib.contextmanager
def running_versitygw(*, versions: bool = False, certificate: tuple[Path, Path] | None = None) -> Iterator[S3Server]:
    """Start the server on a free loopback port; stop it, and remove its files, when the block ends.

    :param versions: whether its buckets may keep older versions.
    :param certificate: paths of its certificate and key, for HTTPS; None for HTTP.
    """
    program = find_versitygw()
    secrets = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-s3-") as folder,
        tempfile.TemporaryDirectory(prefix="holdfast-s3-older-") as older,
    ):
        keeping = ["--versioning-dir", older] if versions else []
        secure: list[str | Path] = ["--cert", certificate[0], "--key", certificate[1]] if certificate else []
        scheme = "https" if certificate else "http"

        def command(port: int) -> list[str | Path]:
            given = ["--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet", *secure]
            return [program, *given, "posix", *keeping, folder]

        with running(command, secrets) as (port, pid):
            yield S3Server(endpoint=f"{scheme}://127.0.0.1:{port}", folder=Path(folder), pid=pid)
