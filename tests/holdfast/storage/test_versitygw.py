"""The S3 server that tests start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.versitygw import find_versitygw, running_versitygw


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
