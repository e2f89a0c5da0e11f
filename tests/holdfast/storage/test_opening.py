"""Opening of an archive's store: the place that the URL names, behind the key that is given or set."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.common.errors import HoldfastError, UsageError
from holdfast.storage import FolderStore, open_url
from holdfast.storage.encryption.key_source import ENVIRONMENT, new_key
from holdfast.storage.encryption.signed_store import open_store

pytestmark = pytest.mark.usefixtures("no_settings")


def test_without_a_key_what_is_written_is_what_lies_there(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    store.put("a", b"plain")
    assert (store.url, store.is_encrypted, store.key) == (str(tmp_path), False, None)
    place = open_url(str(tmp_path))
    assert isinstance(place, FolderStore)
    assert place.get("a") == b"plain"


@pytest.mark.parametrize("by", ["argument", "environment"])
def test_with_a_key_nothing_lies_there_in_plain_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    (tmp_path / "key").write_text(new_key())
    address = f"file:{tmp_path / 'key'}"
    if by == "environment":
        monkeypatch.setenv(ENVIRONMENT, address)
    store = open_store(str(tmp_path / "archive"), address if by == "argument" else None)
    store.begin()
    store.put("data/a", b"in plain text")
    assert (store.is_encrypted, store.key) == (True, address)
    assert b"plain" not in open_url(str(tmp_path / "archive")).get("data/a")
    assert open_store(str(tmp_path / "archive"), address).get("data/a") == b"in plain text"


def test_the_key_that_is_given_counts_before_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(new_key())
    monkeypatch.setenv(ENVIRONMENT, "file:/nowhere")
    given = f"file:{tmp_path / 'key'}"
    assert open_store(str(tmp_path / "archive"), given).key == given


def test_a_url_that_names_no_store_is_refused() -> None:
    with pytest.raises(UsageError, match="No store is known"):
        open_store("ftp://host/x")


def test_a_key_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="/nowhere"):
        open_store(str(tmp_path), "file:/nowhere").begin()
