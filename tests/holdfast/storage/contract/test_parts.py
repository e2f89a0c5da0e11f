"""Large objects of the stores that send them in parts and read them by ranges."""

from __future__ import annotations

import io

import pytest

from holdfast.storage import ObjectExists, ObjectNotFound, ObjectStore, StoreError
from holdfast.storage.contract.parts import PART_BYTES, PartWriter, RangeReader

CONTENT = bytes(range(256))


def reader(asked: list[tuple[int, int]]) -> RangeReader:
    def fetch(offset: int, length: int) -> bytes:
        asked.append((offset, length))
        return CONTENT[offset : offset + length]

    return RangeReader(len(CONTENT), fetch)


def test_a_range_is_asked_for_only_within_the_object() -> None:
    asked: list[tuple[int, int]] = []
    file = reader(asked)
    file.seek(-6, io.SEEK_END)
    assert file.read(4) == CONTENT[250:254]
    assert file.read(100) == CONTENT[254:]
    assert file.read(1) == b""
    assert (file.seek(300), file.read()) == (300, b"")
    assert asked == [(250, 4), (254, 2)]


def test_the_rest_is_read_in_one_request() -> None:
    asked: list[tuple[int, int]] = []
    with io.BufferedReader(reader(asked)) as file:
        file.seek(100)
        assert file.read() == CONTENT[100:]
    assert asked == [(100, 156)]


def test_positions_are_those_of_a_file() -> None:
    file = reader([])
    assert (file.seek(10), file.seek(5, io.SEEK_CUR), file.tell()) == (10, 15, 15)
    with pytest.raises(ValueError, match="before the beginning"):
        file.seek(-1)
    assert file.tell() == 15


@pytest.mark.parametrize(
    ("size", "parts"),
    [(0, []), (1, [1]), (PART_BYTES, [PART_BYTES]), (PART_BYTES * 2 + 1, [PART_BYTES, PART_BYTES, 1])],
)
def test_what_is_written_is_handed_on_in_parts(size: int, parts: list[int]) -> None:
    sent: list[bytes] = []
    file = PartWriter(sent.append)
    file.write(b"x" * size)
    assert file.tell() == size
    file.finish()
    assert [len(part) for part in sent] == parts


def test_a_file_that_is_only_closed_hands_nothing_on() -> None:
    sent: list[bytes] = []
    with PartWriter(sent.append) as file:
        file.write(b"x")
    del file
    assert sent == []


@pytest.mark.parametrize("size", [0, 1, PART_BYTES, PART_BYTES + 1])
def test_an_object_of_any_size_comes_back(cloud: ObjectStore, size: int) -> None:
    content = (CONTENT * (size // 256 + 1))[:size]
    with cloud.open_write("a") as file:
        file.write(content)
    assert cloud.head("a").size == size
    assert cloud.get("a") == content
    with cloud.open_read("a") as read:
        assert read.read() == content


def test_a_bulk_write_refuses_a_taken_key(cloud: ObjectStore) -> None:
    def write(key: str, meanwhile: bytes | None) -> None:
        with cloud.open_write(key) as file:
            file.write(b"2" * (PART_BYTES + 1))
            if meanwhile:
                cloud.put(key, meanwhile)

    cloud.put("a", b"1")
    with pytest.raises(ObjectExists):
        write("a", None)
    with pytest.raises(ObjectExists):
        write("b", b"meanwhile")
    assert (cloud.get("a"), cloud.get("b")) == (b"1", b"meanwhile")


def test_nothing_stays_of_a_large_write_that_failed(cloud: ObjectStore) -> None:
    def write_half() -> None:
        with cloud.open_write("half") as file:
            file.write(b"x" * (PART_BYTES + 1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    with pytest.raises(ObjectNotFound):
        cloud.head("half")
    assert cloud.list("").objects == ()


def test_an_object_that_is_replaced_while_it_is_read_gives_no_mixture(cloud: ObjectStore) -> None:
    cloud.put("a", b"old " * 1_000_000)
    with cloud.open_read("a") as file:
        assert file.read(4) == b"old "
        cloud.put("a", b"new " * 1_000_000)
        with pytest.raises(StoreError):
            file.read()
