"""One store of each kind, empty, for the contract suite."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.storage import ObjectStore, open_store
from tests.support.versitygw import S3Server, running_versitygw

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with running_versitygw() as server:
        yield server


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.service)])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """An empty store under a prefix of its own."""
    if request.param == "folder":
        return open_store(str(tmp_path / "archive"))
    server: S3Server = request.getfixturevalue("s3_server")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    bucket = f"test-{uuid.uuid4().hex}"
    server.make_bucket(bucket)
    return open_store(f"s3://{bucket}/some/archive")
