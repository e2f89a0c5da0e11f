"""A server that fails as told, and a store on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.storage.contract import connections
from holdfast.storage.contract.patience import Patience
from holdfast.storage.gcs import store as gcs_module
from holdfast.storage.gcs.store import GcsStore
from tests.support.stores.failing_server import FailingServer, failing_server
from tests.support.stores.gcs_requests import PATIENCE


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[FailingServer, GcsStore]]:
    """One server and one client for all tests."""
    with failing_server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "FIRST_PAUSE", 0.0)
        patch.setattr(gcs_module, "PART_PATIENCE", 0.0)
        patch.setenv("STORAGE_EMULATOR_HOST", server.endpoint)
        yield server, GcsStore("bucket", "prefix", patience=Patience(connect_s=5.0, read_s=0.3, attempts=PATIENCE))


@pytest.fixture
def server(running: tuple[FailingServer, GcsStore]) -> FailingServer:
    running[0].reset()
    return running[0]


@pytest.fixture
def store(running: tuple[FailingServer, GcsStore]) -> GcsStore:
    return running[1]
