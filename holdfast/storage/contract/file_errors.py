"""Files that raise the errors of their store, however late an error comes."""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from typing_extensions import Buffer


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
