"""Files that have grown beyond all memory since they were written: they are named at once, and not copied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.archive.files.data_files import check_file, read_at_most, read_file, write_bytes
from holdfast.archive.files.packs import AtHand
from holdfast.archive.files.transfer import is_whole, replace_file, send_file
from holdfast.archive.format.document import FileRecord
from holdfast.common.errors import DamagedError
from holdfast.storage import ObjectStore
from holdfast.storage.folder import FolderStore

KEY = "data/shop/1/snapshot/00000000000000000000000000000000/00000-000000000000.parquet"
BODY = b"all that was written"
GROWN = 1 << 40
"""Bytes without any content: to read them takes hours."""


@dataclass(frozen=True)
class Grown:
    store: FolderStore
    record: FileRecord


@pytest.fixture
def grown(tmp_path: Path) -> Grown:
    store = FolderStore(tmp_path / "archive")
    record = write_bytes(store, KEY, BODY)
    with Path(store.url, KEY).open("r+b") as file:
        file.truncate(GROWN)
    return Grown(store, record)


READERS: dict[str, Callable[[ObjectStore, FileRecord], object]] = {"read": read_file, "looked at": check_file}


@pytest.mark.parametrize("how", READERS)
def test_a_file_that_has_grown_is_named(grown: Grown, how: str) -> None:
    with pytest.raises(DamagedError, match=f"{KEY} in .* more than the {len(BODY)} bytes that were written"):
        READERS[how](grown.store, grown.record)


def test_a_file_that_has_grown_is_not_copied(grown: Grown, tmp_path: Path) -> None:
    target = FolderStore(tmp_path / "copy")
    with pytest.raises(DamagedError, match=f"more than the {len(BODY)} bytes written"):
        send_file(grown.store, target, grown.record)
    assert target.list("").objects == ()
    assert not is_whole(grown.store, grown.record)
    with pytest.raises(DamagedError):
        replace_file(grown.store, target, grown.record)


def test_of_a_pack_that_has_grown_no_more_is_kept_than_its_files_need(grown: Grown) -> None:
    parts = [FileRecord(path=f"{KEY}#{offset}", size=3, sha256="") for offset in (0, 5)]
    at_hand = AtHand(grown.store, parts)
    with at_hand.open_read(KEY) as file:
        assert file.read() == BODY[:8]


def test_a_file_is_read_from_where_it_is_and_to_its_end_at_most(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    write_bytes(store, KEY, BODY)
    for size in (0, 3, len(BODY), 1000):
        with store.open_read(KEY) as file:
            assert read_at_most(file, size) == BODY[:size]
