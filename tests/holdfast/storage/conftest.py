"""One store of each kind, empty, for the contract suite."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.support.versitygw import S3Server, running_versitygw
from holdfast.storage import ObjectStore, open_url
from tests.support.stores.azurite import AzureServer, running_azurite
from tests.support.stores.fake_gcs import GcsServer, running_fake_gcs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with running_versitygw() as server:
        yield server


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    with running_azurite() as server:
        yield server


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[GcsServer]:
    with running_fake_gcs() as server:
        yield server


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the environment says where a store is, who we are to it, or how it is used."""
    for name in os.environ:
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "STORAGE_", "HOLDFAST_")):
            monkeypatch.delenv(name)


@pytest.fixture
def open_empty(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], ObjectStore]:
    """Opens an empty store of a kind, under a prefix of its own."""

    def open_kind(kind: str) -> ObjectStore:
        if kind == "folder":
            return open_url(str(tmp_path / "archive"))
        name = f"test-{uuid.uuid4().hex}"
        url, environment = {"s3": _on_s3, "azure": _on_azure, "gcs": _on_gcs}[kind](request, name)
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        return open_url(url)

    return open_kind


@pytest.fixture(params=["folder", *(pytest.param(kind, marks=pytest.mark.service) for kind in ("s3", "azure", "gcs"))])
def store(request: pytest.FixtureRequest, open_empty: Callable[[str], ObjectStore]) -> ObjectStore:
    """An empty store under a prefix of its own."""
    return open_empty(request.param)


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.service) for kind in ("azure", "gcs")])
def cloud(request: pytest.FixtureRequest, open_empty: Callable[[str], ObjectStore]) -> ObjectStore:
    """An empty store of those that write large objects in parts of ours."""
    return open_empty(request.param)


def _on_s3(request: pytest.FixtureRequest, name: str) -> tuple[str, dict[str, str]]:
    server: S3Server = request.getfixturevalue("s3_server")
    server.make_bucket(name)
    return f"s3://{name}/some/archive", server.environment


def _on_azure(request: pytest.FixtureRequest, name: str) -> tuple[str, dict[str, str]]:
    server: AzureServer = request.getfixturevalue("azure_server")
    server.make_container(name)
    return f"az://{name}/some/archive", server.environment


def _on_gcs(request: pytest.FixtureRequest, name: str) -> tuple[str, dict[str, str]]:
    server: GcsServer = request.getfixturevalue("gcs_server")
    server.make_bucket(name)
    return f"gs://{name}/some/archive", server.environment
