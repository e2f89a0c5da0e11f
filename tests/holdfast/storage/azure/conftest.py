"""A server that fails as told, and a store on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.storage.azure.store import AzureStore
from holdfast.storage.contract import connections
from holdfast.storage.contract.patience import Patience
from tests.support.stores.failing_server import FailingServer, failing_server


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[FailingServer, AzureStore]]:
    """One server and one client for all tests."""
    with failing_server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "FIRST_PAUSE", 0.0)
        patch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)
        patch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", f"{server.endpoint}/account")
        patch.setenv("AZURE_STORAGE_ACCOUNT", "account")
        patch.setenv("AZURE_STORAGE_KEY", "a2V5")
        yield server, AzureStore("container", "prefix", patience=Patience(connect_s=5.0, read_s=0.3, attempts=2))


@pytest.fixture
def server(running: tuple[FailingServer, AzureStore]) -> FailingServer:
    running[0].reset()
    return running[0]


@pytest.fixture
def store(running: tuple[FailingServer, AzureStore]) -> AzureStore:
    return running[1]
