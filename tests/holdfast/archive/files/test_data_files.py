"""Files of blocks: whatever became of one since it was written, it is named, and nothing of it believed."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable
from typing import IO, cast

import pyarrow as pa
import pytest
from typing_extensions import Buffer

from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.files.data_files import (
    PIECE_BYTES,
    check_file,
    check_footer,
    new_attempt,
    open_file,
    pieces,
    read_at_most,
    read_file,
    read_range,
    table_folder,
    write_bytes,
)
from holdfast.archive.format.document import FileRecord
from holdfast.archive.format.paths import place_of
from holdfast.common.errors import DamagedError
from holdfast.storage import ObjectNotFound, ObjectStore
from tests.support.archives.grown import BODY, Grown

KEY = "data/shop/1/snapshot/b/00000-1.parquet"
READERS: dict[str, Callable[[ObjectStore, FileRecord], object]] = {"read": read_file, "looked at": check_file}


def parquet(store: ObjectStore) -> FileRecord:
    batch = pa.record_batch({"id": pa.array(range(300))})
    (record,) = write_parquet(store, "data/shop/1/snapshot/b/00000", batch.schema, [batch])
    return record


def test_a_file_is_recorded_as_it_lies_in_the_store(store: ObjectStore) -> None:
    record = write_bytes(store, KEY, BODY)
    assert record == FileRecord(path=KEY, size=len(BODY), sha256=hashlib.sha256(BODY).hexdigest())
    assert read_file(store, record) == store.get(KEY) == BODY
    check_file(store, record)


def test_paths_name_the_source_and_the_block_and_no_two_attempts_are_alike() -> None:
    block = "a" * 32
    one, other = (f"{table_folder('shop', '7', block)}/00000-{new_attempt()}.parquet" for _ in range(2))
    assert one.startswith(f"data/shop/7/snapshot/{block}/")
    assert place_of(one) == place_of(other) == ("shop", block)
    assert one != other


@pytest.mark.parametrize("how", READERS)
@pytest.mark.parametrize(
    ("now", "said"),
    [
        pytest.param(BODY.upper(), "has 20 bytes with another checksum than the 20 bytes", id="a flipped bit"),
        pytest.param(BODY[:-1], "has 19 bytes with another checksum than the 20 bytes", id="cut"),
        pytest.param(b"", "has 0 bytes with another checksum than the 20 bytes", id="empty"),
        pytest.param(BODY + b"!", "has more than the 20 bytes that were written", id="longer"),
        pytest.param(None, "is missing from", id="gone"),
    ],
)
def test_a_damaged_file_is_named_with_what_became_of_it_and_what_to_do(
    store: ObjectStore, how: str, now: bytes | None, said: str
) -> None:
    record = write_bytes(store, KEY, BODY)
    if now is None:
        store.delete(KEY)
    else:
        store.put(KEY, now)
    with pytest.raises(DamagedError, match=rf"^{re.escape(KEY)} .*{said}.*: put it back from a copy of the archive"):
        READERS[how](store, record)


@pytest.mark.parametrize("how", READERS)
def test_a_file_that_has_grown_is_named(grown: Grown, how: str) -> None:
    with pytest.raises(DamagedError, match=f"{grown.record.path} in .* more than the {len(BODY)} bytes that were"):
        READERS[how](grown.store, grown.record)


@pytest.mark.parametrize("how", READERS)
def test_a_file_that_goes_while_it_is_read_is_missing(how: str) -> None:
    class Going(io.RawIOBase):
        def readinto(self, buffer: Buffer, /) -> int:
            raise ObjectNotFound("it went")

    class GoingStore:
        url = "going"

        def open_read(self, key: str) -> IO[bytes]:
            return cast("IO[bytes]", Going())

    record = FileRecord(path=KEY, size=1, sha256="")
    with pytest.raises(DamagedError, match="is missing from going"):
        READERS[how](cast("ObjectStore", GoingStore()), record)


def test_a_part_of_a_pack_is_verified_when_it_is_opened_and_a_file_of_its_own_when_it_is_read(
    store: ObjectStore,
) -> None:
    store.put("a.pack", b"before" + BODY + b"behind")
    part = FileRecord(path="a.pack#6", size=len(BODY), sha256=hashlib.sha256(BODY).hexdigest())
    assert open_file(store, part).read() == read_file(store, part) == BODY
    whole = write_bytes(store, KEY, BODY)
    for key in ("a.pack", KEY):
        store.put(key, b"other" * 10)
    with pytest.raises(DamagedError, match=r"^a\.pack#6 in .* is damaged"):
        open_file(store, part)
    with open_file(store, whole) as file:
        assert file.read() == b"other" * 10
    store.delete(KEY)
    with pytest.raises(DamagedError, match="is missing"):
        open_file(store, whole)


def test_a_file_is_read_from_where_it_is_and_to_its_end_at_most(store: ObjectStore) -> None:
    write_bytes(store, KEY, BODY)
    for size in (0, 3, len(BODY), 1000):
        with store.open_read(KEY) as file:
            assert read_at_most(file, size) == BODY[:size]


class OfOneByteAtATime(io.BytesIO):
    """What a request of a cloud may do: answer with less than was asked for."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, 1))


@pytest.mark.parametrize(("offset", "size"), [(0, 3), (5, 4), (0, len(BODY)), (18, 10), (100, 1), (4, 0)])
def test_a_range_is_read_whole_and_to_the_end_at_most(offset: int, size: int) -> None:
    for file in (io.BytesIO(BODY), OfOneByteAtATime(BODY)):
        assert read_range(file, offset, size) == BODY[offset : offset + size]
    assert read_at_most(OfOneByteAtATime(BODY), size) == BODY[:size]


def test_a_large_file_comes_in_pieces_of_bounded_size() -> None:
    body = b"abc" * PIECE_BYTES
    found = [bytes(piece) for piece in pieces(io.BytesIO(body))]
    assert [len(piece) for piece in found] == [PIECE_BYTES] * 3
    assert b"".join(found) == body


def test_a_footer_that_was_changed_cut_or_not_told_of_is_found(store: ObjectStore) -> None:
    record = parquet(store)
    untold = record.model_copy(update={"footer": None})
    body = store.get(record.path)
    for wrong in (body[:-20] + b"X" + body[-19:], body[:-1], b""):
        store.put(record.path, wrong)
        for each in (record, untold):
            with pytest.raises(DamagedError, match=record.path):
                check_footer(store, each)
    store.put(record.path, b"XXXX" + body[4:])
    check_footer(store, record)
    with pytest.raises(DamagedError, match=record.path):
        check_footer(store, untold)
    store.delete(record.path)
    with pytest.raises(DamagedError, match="is missing"):
        check_footer(store, record)


def test_the_footer_of_a_part_is_at_the_end_of_the_part(store: ObjectStore) -> None:
    record = parquet(store)
    body = store.get(record.path)
    part = record.model_copy(update={"path": "a.pack#9"})
    store.put("a.pack", b"something" + body + b"something else")
    check_footer(store, part)
    store.put("a.pack", b"something" + body[:-1] + b"Xsomething else")
    with pytest.raises(DamagedError, match=r"^a\.pack#9 in .*: its footer is not what was written: put it back"):
        check_footer(store, part)
