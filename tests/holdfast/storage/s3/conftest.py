"""S3 servers in memory: one that fails as told, with a store on it, and one for stores with settings of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.storage.contract import parts
from holdfast.storage.contract.patience import Patience
from holdfast.storage.s3 import store as s3_module
from holdfast.storage.s3.store import S3Store
from tests.support.stores.fake_s3 import BUCKET, FakeS3, running_fake_s3
from tests.support.stores.s3_requests import ATTEMPTS, NAMES


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[FakeS3, S3Store]]:
    """One server and one client for all tests: making a client takes longer than a test."""
    with running_fake_s3() as server, pytest.MonkeyPatch.context() as patch:
        # Waits are the SDK's and ours to choose: none is needed here.
        patch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
        patch.setattr(s3_module, "CREATE_PAUSE", 0.0)
        patch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield server, S3Store(BUCKET, "prefix", patience=Patience(connect_s=5.0, read_s=0.2, attempts=ATTEMPTS))


@pytest.fixture
def server(running: tuple[FakeS3, S3Store]) -> FakeS3:
    running[0].reset()
    return running[0]


@pytest.fixture
def store(running: tuple[FakeS3, S3Store]) -> S3Store:
    return running[1]


@pytest.fixture(scope="module")
def running_plain() -> Iterator[FakeS3]:
    with running_fake_s3() as server:
        yield server


@pytest.fixture
def plain_server(running_plain: FakeS3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeS3:
    """A server that the environment names, and nothing else set; parts of objects are small."""
    running_plain.reset()
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    for name in (*NAMES, "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", running_plain.endpoint)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(parts, "PART_BYTES", 10)
    return running_plain
