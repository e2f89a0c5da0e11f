"""The Azure Blob emulator for tests: azurite, with everything in memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from azure.core.credentials import AzureNamedKeyCredential
from azure.storage.blob import BlobServiceClient

from bench.support.loopback import running
from bench.support.missing import MissingError

ACCOUNT = "holdfast"
ACCOUNT_KEY = "aG9sZGZhc3QtZm9yLXRlc3RzLW9ubHk="

_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class AzureServer:
    """A running emulator.

    :param endpoint: of its blob service, with the account's name as the path
    :param pid: its process, which leads a process group of its own
    """

    endpoint: str
    pid: int

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead a client here."""
        return {
            "AZURE_STORAGE_SERVICE_ENDPOINT": self.endpoint,
            "AZURE_STORAGE_ACCOUNT": ACCOUNT,
            "AZURE_STORAGE_KEY": ACCOUNT_KEY,
        }

    def service(self) -> BlobServiceClient:
        """A client of the account."""
        return BlobServiceClient(self.endpoint, credential=AzureNamedKeyCredential(ACCOUNT, ACCOUNT_KEY))

    def make_container(self, name: str) -> None:
        """Create an empty container."""
        with self.service() as service:
            service.create_container(name)


def find_azurite() -> tuple[Path, Path]:
    """Node.js and the emulator's program: ``HOLDFAST_AZURITE``'s folder, or what ``make setup-tests`` installed."""
    folder = Path(os.environ.get("HOLDFAST_AZURITE") or _ROOT / ".work" / "azurite")
    node, program = folder / "node", folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    if not (os.access(node, os.X_OK) and program.exists()):
        raise MissingError(
            "azurite", f"There is no azurite (Azure Blob emulator) in {folder}: `make setup-tests` installs it."
        )
    return node, program


@contextlib.contextmanager
def running_azurite(certificate: tuple[Path, Path] | None = None) -> Iterator[AzureServer]:
    """Start the emulator on a free loopback port; stop it when the block ends.

    :param certificate: paths of its certificate and key, for HTTPS; None for HTTP.
    """
    node, program = find_azurite()
    options = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    secure = ["--cert", str(certificate[0]), "--key", str(certificate[1])] if certificate else []
    scheme = "https" if certificate else "http"
    with running(
        lambda port: [node, program, "--blobHost", "127.0.0.1", "--blobPort", str(port), *options, *secure],
        {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"},
    ) as (port, pid):
        yield AzureServer(endpoint=f"{scheme}://127.0.0.1:{port}/{ACCOUNT}", pid=pid)
