"""Transfer of files between stores: what arrives is what was written, or nothing does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.archive.files.data_files import PIECE_BYTES, write_bytes
from holdfast.archive.files.transfer import is_whole, replace_file, send_file
from holdfast.archive.format.document import FileRecord
from holdfast.common.errors import DamagedError
from holdfast.storage import ObjectStore
from holdfast.storage.folder import FolderStore
from tests.support.archives.grown import BODY, Grown
from tests.support.stores.memory_store import MemoryStore

KEY = "data/shop/1/snapshot/b/00000-1.parquet"


@pytest.fixture
def target() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def record(store: ObjectStore) -> FileRecord:
    return write_bytes(store, KEY, BODY)


@pytest.mark.parametrize("size", [0, 1, 2 * PIECE_BYTES + 1])
def test_a_file_of_any_size_arrives_as_it_was_written(store: ObjectStore, target: MemoryStore, size: int) -> None:
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    send_file(store, target, write_bytes(store, KEY, body))
    assert target.get(KEY) == body


@pytest.mark.parametrize(
    ("now", "why"),
    [
        pytest.param(BODY.upper(), "it has 20 bytes with another checksum than the 20 written", id="changed"),
        pytest.param(BODY[:-1], "it has 19 bytes with another checksum than the 20 written", id="cut"),
        pytest.param(BODY + b"!", "it has more than the 20 bytes written", id="longer"),
        pytest.param(None, "it is missing", id="gone"),
    ],
)
def test_of_a_damaged_file_nothing_arrives_and_how_to_go_on_is_said(
    store: ObjectStore, target: MemoryStore, record: FileRecord, now: bytes | None, why: str
) -> None:
    if now is None:
        store.delete(KEY)
    else:
        store.put(KEY, now)
    said = f"{KEY} in {store.url} is damaged: {why}. Put it back from another copy of the archive and copy again: "
    with pytest.raises(DamagedError, match=f"^{re.escape(said)}it goes on from here$"):
        send_file(store, target, record)
    assert target.list("").objects == ()


def test_a_service_that_copies_by_itself_is_let_do_so(target: MemoryStore) -> None:
    class Copying(MemoryStore):
        asked: tuple[object, ...] = ()

        def copy_from(self, source: ObjectStore, key: str, size: int, sha256: str) -> bool:
            self.asked = (source, key, size, sha256)
            return True

    copying, record = Copying(), FileRecord(path=KEY, size=3, sha256="x")
    send_file(target, copying, record)
    assert copying.asked == (target, KEY, 3, "x")
    assert target.requests == []


def test_a_file_that_has_grown_is_not_copied(grown: Grown, tmp_path: Path) -> None:
    target = FolderStore(tmp_path / "copy")
    with pytest.raises(DamagedError, match=f"more than the {len(BODY)} bytes written"):
        send_file(grown.store, target, grown.record)
    assert target.list("").objects == ()
    assert not is_whole(grown.store, grown.record)
    with pytest.raises(DamagedError):
        replace_file(grown.store, target, grown.record)


def test_a_file_is_whole_as_long_as_it_is_as_it_was_written(store: ObjectStore, record: FileRecord) -> None:
    assert is_whole(store, record)
    store.put(KEY, BODY[:-1] + b"!")
    assert not is_whole(store, record)
    store.delete(KEY)
    assert not is_whole(store, record)


def test_a_damaged_file_is_replaced_by_a_good_one_only(
    store: ObjectStore, target: MemoryStore, record: FileRecord
) -> None:
    target.put(KEY, b"damaged")
    replace_file(store, target, record)
    assert target.get(KEY) == BODY
    target.put(KEY, b"damaged")
    store.put(KEY, b"damaged otherwise")
    with pytest.raises(DamagedError, match="is damaged"):
        replace_file(store, target, record)
    assert target.get(KEY) == b"damaged"
