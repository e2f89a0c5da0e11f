"""An encrypted archive, and two keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.storage import SealedStore, open_store
from holdfast.storage.encryption.key_source import ENVIRONMENT, new_key


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)


@pytest.fixture
def keys(tmp_path: Path) -> list[str]:
    """Addresses of two keys."""
    for name in ("one", "two"):
        (tmp_path / name).write_text(new_key())
    return [f"file:{tmp_path / name}" for name in ("one", "two")]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def store(place: Path, keys: list[str]) -> SealedStore:
    """An encrypted archive."""
    store = open_store(str(place), keys[0])
    Archive.create(store, name="shop")
    return store
