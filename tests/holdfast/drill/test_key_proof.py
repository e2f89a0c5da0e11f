"""A drill that had the archive's key from a copy proves that copy, until the key is exchanged."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.common.errors import UsageError
from holdfast.drill.key_proof import PREFIX, check_copy, last_proof, record_proof
from holdfast.storage import SealedStore, open_store
from holdfast.storage.encryption.key_source import new_key


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    """Addresses of a key, of its copy, and of another one."""
    secret = new_key()
    for name, text in (("daily", secret), ("copy", secret), ("other", new_key())):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    return {name: f"file:{tmp_path / name}" for name in ("daily", "copy", "other")}


@pytest.fixture
def sealed(tmp_path: Path, keys: dict[str, str]) -> SealedStore:
    """An encrypted archive, opened by its key."""
    store = open_store(str(tmp_path / "archive"), keys["daily"])
    store.begin()
    Archive.create(store, name="shop")
    return store


def test_a_proof_is_recorded_and_found(tmp_path: Path, sealed: SealedStore, keys: dict[str, str]) -> None:
    assert last_proof(sealed) is None
    record_proof(open_store(str(tmp_path / "archive"), keys["copy"]), "drill-shop_db.1")
    found = sealed.list(f"runs/{PREFIX}").objects[-1]
    assert (proved := last_proof(sealed)) is not None
    assert found.modified - timedelta(seconds=1) < proved <= found.modified
    assert keys["copy"].encode() in sealed.get(found.key)


def test_it_does_not_count_once_the_key_was_exchanged(
    tmp_path: Path, sealed: SealedStore, keys: dict[str, str]
) -> None:
    record_proof(open_store(str(tmp_path / "archive"), keys["copy"]), "drill-shop_db.1")
    sealed.renew(keys["daily"])
    assert last_proof(sealed) is not None
    sealed.renew(keys["other"])
    assert last_proof(sealed) is None
    with pytest.raises(UsageError, match="fingerprint"):
        Archive.open(open_store(str(tmp_path / "archive"), keys["copy"]))
    record_proof(sealed, "drill-shop_db.2")
    assert last_proof(sealed) is not None


def test_the_key_in_use_proves_nothing_of_its_copy(keys: dict[str, str]) -> None:
    check_copy(keys["copy"], keys["daily"])
    check_copy(keys["copy"], None)
    with pytest.raises(UsageError, match=r"is the key in use: name the address of its copy"):
        check_copy(keys["daily"], keys["daily"])
