"""The emulators of Azure and of Google Cloud Storage that tests start."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.azurite import AzureServer, find_azurite, running_azurite
from tests.support.fake_gcs import GcsServer, find_fake_gcs, running_fake_gcs


@pytest.mark.parametrize(
    ("variable", "find"), [("HOLDFAST_AZURITE", find_azurite), ("HOLDFAST_FAKE_GCS", find_fake_gcs)]
)
def test_a_missing_emulator_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, find: Callable[[], object]
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="make setup-tests"):
        find()


@pytest.mark.service
@pytest.mark.parametrize("running", [running_azurite, running_fake_gcs])
def test_the_emulator_is_gone_when_its_block_ends(
    running: Callable[[], AbstractContextManager[AzureServer | GcsServer]],
) -> None:
    with running() as server:
        assert os.getpgid(server.pid) == server.pid
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)
