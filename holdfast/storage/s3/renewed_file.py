"""Files of pyarrow that outlive the credentials which they were opened with."""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyarrow.fs import FileSystem
    from typing_extensions import Buffer

_Read = TypeVar("_Read")


_TRIES = 4
_PAUSE_S = 0.25


def _is_excuse(error: BaseException) -> bool:
    """Return whether a server that is too busy answered, and pyarrow's client did not try again.

    It has room for as many bytes as it asked for: an answer that is longer than a short file is lost there.
    """
    return isinstance(error, OSError) and "INTERNAL_FAILURE" in str(error)


class RenewedFile(io.RawIOBase):
    """File that is opened again, at its position, where a read fails and credentials were renewed since.

    A read that a busy server refuses is tried again.

    :param filesystem: returns pyarrow's filesystem with the credentials of the moment.
    """

    def __init__(self, filesystem: Callable[[], FileSystem], path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._open()

    def _open(self) -> None:
        self._with = self._filesystem()
        self._file: IO[bytes] = self._with.open_input_file(self._path)

    def _read(self, read: Callable[[IO[bytes]], _Read]) -> _Read:
        position = self._file.tell()
        tries = Retrying(
            stop=stop_after_attempt(_TRIES), wait=wait_random_exponential(_PAUSE_S, max=1.0),
            retry=retry_if_exception(_is_excuse), reraise=True,
        )  # fmt: skip
        result: _Read = tries(self._read_at, position, read)
        return result

    def _read_at(self, position: int, read: Callable[[IO[bytes]], _Read]) -> _Read:
        try:
            self._file.seek(position)
            return read(self._file)
        except OSError:
            if self._filesystem() is self._with:
                raise
        self._open()
        self._file.seek(position)
        return read(self._file)

    def readinto(self, buffer: Buffer, /) -> int:
        return self._read(lambda file: file.readinto(buffer))  # type: ignore[attr-defined, no-any-return]  # it is a raw file

    def readall(self) -> bytes:
        return self._read(lambda file: file.read())

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.close()
