"""Chunks of files: as many as are read in about twenty seconds, whatever the store can do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from holdfast.archive.files.file_index import NamedFile
from holdfast.archive.format.document import FileRecord
from holdfast.archive.maintenance.verify import CHUNK_S, FIRST_BYTES, LARGEST_BYTES, SMALLEST_BYTES, Chunks

FOREVER = 10.0**9
MEBIBYTE = 1 << 20


class Clock:
    """Time that passes only where it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made


def files(size: int, count: int = 1 << 20) -> Iterator[NamedFile]:
    for number in range(count):
        yield NamedFile(FileRecord(path=f"f{number}", size=size, sha256=""), "b", 1, "shop", "shop.orders")


def sizes(clock: Clock, chunks: Chunks, took: Callable[[list[NamedFile]], float]) -> Iterator[int]:
    """Yield the bytes of each chunk, which takes so many seconds."""
    for chunk in chunks:
        yield sum(file.record.size for file in chunk)
        clock.now += took(chunk)


def first(found: Iterator[int], count: int) -> list[int]:
    return [next(found) for _ in range(count)]


def test_every_file_is_in_one_chunk_in_its_order(clock: Clock) -> None:
    chunks = list(Chunks(files(100 * MEBIBYTE, 7), FOREVER * MEBIBYTE, FOREVER))
    assert [file.path for chunk in chunks for file in chunk] == [f"f{number}" for number in range(7)]
    assert [len(chunk) for chunk in chunks] == [3, 4]
    assert list(Chunks(files(1, 0), FOREVER, FOREVER)) == []


def test_a_chunk_is_as_large_as_was_read_in_its_time(clock: Clock) -> None:
    found = sizes(clock, Chunks(files(MEBIBYTE), FOREVER * MEBIBYTE, FOREVER), lambda chunk: len(chunk) / 10)
    assert first(found, 3) == [FIRST_BYTES, pytest.approx(CHUNK_S * 10 * MEBIBYTE, rel=0.01), CHUNK_S * 10 * MEBIBYTE]


@pytest.mark.parametrize("seconds", [0.0, 0.1, 5.0])
def test_a_fast_store_gets_chunks_four_times_as_large_at_most_each_time(clock: Clock, seconds: float) -> None:
    found = sizes(clock, Chunks(files(16 << 30), FOREVER * MEBIBYTE, FOREVER), lambda chunk: seconds)
    assert first(found, 7) == [
        16 << 30, 16 << 30, 16 << 30, 16 << 30, LARGEST_BYTES, LARGEST_BYTES, LARGEST_BYTES,
    ]  # fmt: skip


def test_a_slow_store_gets_small_chunks(clock: Clock) -> None:
    found = sizes(clock, Chunks(files(MEBIBYTE), FOREVER * MEBIBYTE, FOREVER), lambda chunk: 10_000)
    assert first(found, 4) == [FIRST_BYTES, SMALLEST_BYTES, SMALLEST_BYTES, SMALLEST_BYTES]


def test_the_smallest_file_counts_as_a_request(clock: Clock) -> None:
    chunk = next(iter(Chunks(files(1), FOREVER, FOREVER)))
    assert len(chunk) == FIRST_BYTES // MEBIBYTE


@pytest.mark.parametrize(("size", "count"), [(1, 1), (10, 1), (11, 2), (25, 3), (0, 0)])
def test_they_end_once_so_many_bytes_were_given_but_for_the_last_file(clock: Clock, size: int, count: int) -> None:
    assert [len(chunk) for chunk in Chunks(files(10), size, FOREVER)] == [count] * (count > 0)


def test_they_end_once_so_many_seconds_are_over(clock: Clock) -> None:
    found = sizes(clock, Chunks(files(FIRST_BYTES), FOREVER * MEBIBYTE, 50), lambda chunk: 20)
    assert len(list(found)) == 3
    assert list(Chunks(files(1), FOREVER, 0)) == []
