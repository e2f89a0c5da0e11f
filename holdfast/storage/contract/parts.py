"""Large objects as files: read by ranges, written in parts, with the errors of their store."""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from typing_extensions import Buffer

PART_BYTES = 8 << 20  # of an upload; kept in memory until sent
AHEAD_BYTES = 1 << 20  # read at once where less is asked for


class RangeReader(io.RawIOBase):
    """Seekable file on one object; `fetch`: gives the bytes from an offset, of a length that lies within the object."""

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._fetch = fetch
        self._position = 0

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        content = self._take(len(view))
        view[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        return self._take(self._size)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError("cannot seek before the beginning")
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def _take(self, length: int) -> bytes:
        length = min(length, self._size - self._position)
        if length <= 0:
            return b""
        content = self._fetch(self._position, length)
        self._position += len(content)
        return content


class PartWriter(io.RawIOBase):
    """File that sends its content in parts, all but the last of `PART_BYTES`; closing it sends nothing."""

    def __init__(self, send: Callable[[bytes], object]) -> None:
        self._send = send
        self._waiting = bytearray()
        self._size = 0

    def write(self, data: Buffer, /) -> int:
        length = memoryview(data).nbytes
        self._waiting += data
        self._size += length
        while len(self._waiting) >= PART_BYTES:
            self._send(bytes(self._waiting[:PART_BYTES]))
            del self._waiting[:PART_BYTES]
        return length

    def finish(self) -> None:
        if self._waiting:
            self._send(bytes(self._waiting))
            self._waiting.clear()

    def tell(self) -> int:
        return self._size

    def writable(self) -> bool:
        return True


class TranslatingFile(io.RawIOBase):
    """File that translates another file's errors into the store's; pyarrow's are OSErrors with text.

    :param errors: a block of it turns errors into the store's
    """

    def __init__(self, file: IO[bytes], errors: Callable[[], AbstractContextManager[None]]) -> None:
        self._file = file
        self._errors = errors

    def readinto(self, buffer: Buffer, /) -> int:
        with self._errors():
            return self._file.readinto(buffer)  # type: ignore[attr-defined, no-any-return]  # it is a raw file

    def readall(self) -> bytes:
        with self._errors():
            return self._file.read()

    def write(self, data: Buffer, /) -> int:
        with self._errors():
            self._file.write(data)
        return memoryview(data).nbytes

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return self._file.readable()

    def writable(self) -> bool:
        return self._file.writable()

    def seekable(self) -> bool:
        return self._file.seekable()

    def close(self) -> None:
        if not self.closed:
            super().close()
            with self._errors():
                self._file.close()
