"""Files whose errors are the store's, at whichever call they come."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, cast

import pytest
from typing_extensions import Buffer

from holdfast.storage.contract.parts import TranslatingFile
from locking.store import StoreUnavailable


@contextmanager
def errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"told: {error}") from error


def over(file: io.RawIOBase | io.BytesIO) -> TranslatingFile:
    return TranslatingFile(cast("IO[bytes]", file), errors)


def test_reads_are_those_of_the_file() -> None:
    file = over(io.BytesIO(b"0123456789"))
    assert (file.readable(), file.writable(), file.seekable()) == (True, True, True)
    assert file.read(3) == b"012"
    assert file.tell() == 3
    assert (file.seek(-2, io.SEEK_END), file.seek(-1, io.SEEK_CUR), file.read()) == (8, 7, b"789")
    assert (file.seek(0), file.readall()) == (0, b"0123456789")
    assert file.read(1) == b""
    assert io.BufferedReader(over(io.BytesIO(b"a\nb"))).readlines() == [b"a\n", b"b"]


def test_what_is_written_is_counted_in_bytes_and_not_in_items() -> None:
    under = io.BytesIO()
    file = over(under)
    for data in (b"abc", bytearray(b"de"), memoryview(bytes(8)).cast("q")):
        assert file.write(data) == memoryview(data).nbytes
    assert under.getvalue() == b"abcde" + bytes(8)


class Failing(io.RawIOBase):
    """A file that fails at every call."""

    closings = 0

    def readinto(self, buffer: Buffer, /) -> int:
        raise OSError("reading")

    def read(self, size: int = -1, /) -> bytes:
        raise OSError("reading all")

    def write(self, data: Buffer, /) -> int:
        raise OSError("writing")

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closings += 1
        raise OSError("closing")

    def __del__(self) -> None:
        """Let it be dropped in silence."""


CALLS: dict[str, Callable[[TranslatingFile], object]] = {
    "reading": lambda file: file.read(1),
    "reading all": lambda file: file.readall(),
    "writing": lambda file: file.write(b"x"),
    "closing": lambda file: file.close(),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_error_is_the_stores_whenever_it_comes(call: str) -> None:
    file = over(Failing())
    with pytest.raises(StoreUnavailable, match=f"^told: {call}$"):
        CALLS[call](file)
    if not file.closed:
        with pytest.raises(StoreUnavailable):
            file.close()


def test_a_file_is_closed_once_also_if_that_failed() -> None:
    under = Failing()
    file = over(under)
    with pytest.raises(StoreUnavailable):
        file.close()
    file.close()
    assert (file.closed, under.closings) == (True, 1)
