"""The S3 server that tests start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.support.versitygw import S3Server, find_versitygw, running_versitygw
from holdfast.storage.contract.parts import PART_BYTES
from holdfast.storage.s3.settings import S3Settings
from holdfast.storage.s3.store import S3Store


def test_a_missing_server_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_VERSITYGW", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="make setup-tests"):
        find_versitygw()


@pytest.mark.service
def test_the_server_is_gone_when_its_block_ends() -> None:
    with running_versitygw() as server:
        pid, folder = server.pid, server.folder
        assert os.getpgid(pid) == pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not folder.exists()


@pytest.mark.service
def test_the_server_takes_encrypted_writes_of_any_size(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    s3_server.make_bucket("encrypted")
    store = S3Store("encrypted", settings=S3Settings(sse="AES256"))
    body = bytes(range(256)) * (PART_BYTES // 256) + b"more"
    with store.open_write("large") as file:
        file.write(body)
    store.create("small", b"1")
    with store.open_read("large") as file:
        assert file.read() == body
    assert store.get("small") == b"1"
