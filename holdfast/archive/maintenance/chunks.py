"""Chunks of files, each read under one lock, for as long as that may be held while others wait."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.archive.files.file_index import NamedFile

CHUNK_S: Final = 20.0  # seconds that a chunk is to take
FIRST_BYTES: Final = 256 << 20
SMALLEST_BYTES: Final = 32 << 20
LARGEST_BYTES: Final = 64 << 30  # bytes of a chunk
_LEAST_WEIGHT: Final = 1 << 20  # bytes that the smallest file counts for: it takes a request as any other does
_FASTER: Final = 4.0  # a chunk is larger than the one before by this factor, at most


class Chunks:
    """Files in chunks of about twenty seconds each, until so many bytes or seconds are spent."""

    def __init__(self, files: Iterator[NamedFile], size: float, seconds: float) -> None:
        self._files = files
        self._left = size
        self._deadline = time.monotonic() + seconds
        self._room = float(FIRST_BYTES)

    def __iter__(self) -> Iterator[list[NamedFile]]:
        while True:
            begun = time.monotonic()
            chunk = self._next(begun)
            if not chunk:
                return
            yield chunk
            took = max(time.monotonic() - begun, 0.01)
            self._room = min(max(self._room * min(CHUNK_S / took, _FASTER), SMALLEST_BYTES), LARGEST_BYTES)

    def _next(self, now: float) -> list[NamedFile]:
        chunk: list[NamedFile] = []
        room = self._room
        while room > 0 and self._left > 0 and now < self._deadline:
            file = next(self._files, None)
            if file is None:
                break
            chunk.append(file)
            self._left -= file.record.size
            room -= max(file.record.size, _LEAST_WEIGHT)
        return chunk
