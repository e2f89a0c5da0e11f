"""Encryption of objects in segments.

Without a key, an object cannot be read, changed or swapped. A part of it can be read alone.

The construction is STREAM (Hoang, Reyhanitabar, Rogaway and Vizár, 2015), in the form of Tink's AES-GCM-HKDF streaming.
Each object has a key of its own: HKDF-SHA256 makes it out of a data key, 32 random bytes and the object's name. Each
segment is AES-256-GCM under that key; its nonce holds the segment's number, and whether it is the last. So a segment
that was changed, moved, left out or cut off is found, and so is an object under another's name.

An object is 4 bytes `HFS1`, 4 bytes that name the data key, 32 random bytes, 7 random bytes that each nonce begins
with, then the segments. All but the last are 256 KiB, of which 16 bytes are the tag.
"""

from __future__ import annotations

import io
import os
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from holdfast.common.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Buffer

MAGIC = b"HFS1"
KEY_ID_BYTES = 4
KEY_BYTES = 32
_SALT_BYTES = 32
_PREFIX_BYTES = 7
HEADER_BYTES = len(MAGIC) + KEY_ID_BYTES + _SALT_BYTES + _PREFIX_BYTES
_TAG_BYTES = 16
_SEGMENT_BYTES = 256 << 10
_CONTENT_BYTES = _SEGMENT_BYTES - _TAG_BYTES

_SEGMENTS_AT_ONCE = 16  # fetched and opened at once, so that beside what is asked for little is in memory


@dataclass(frozen=True)
class DataKey:
    """Key that objects are sealed with: 32 bytes, and 4 bytes that objects name it by."""

    id: bytes
    secret: bytes = field(repr=False)


def content_size(size: int) -> int:
    """Return the size of a sealed object's content; -1 where no sealed object has that size."""
    body = size - HEADER_BYTES
    segments = -(-body // _SEGMENT_BYTES)
    content = body - segments * _TAG_BYTES
    least = 0 if segments == 1 else (segments - 1) * _CONTENT_BYTES + 1
    return content if segments > 0 and content >= least else -1


def key_id(header: bytes, name: str) -> bytes:
    """Return the id of the data key in an object's header; DamagedError: it is not sealed."""
    if len(header) < HEADER_BYTES or not header.startswith(MAGIC):
        raise DamagedError(f"{name} is damaged: it is not encrypted, as all of this archive is")
    return header[len(MAGIC) : len(MAGIC) + KEY_ID_BYTES]


def seal(content: Buffer, key: DataKey, name: str) -> bytes:
    """Return a whole object, sealed."""
    sealed: list[bytes] = []
    with SealingWriter(sealed.append, key, name) as file:
        file.write(content)
        file.finish()
    return b"".join(sealed)


def unseal(sealed: bytes, key: DataKey, name: str) -> bytes:
    """Return the content of a sealed object; DamagedError: not sealed under this name with this key."""
    reader = Unsealer(sealed[:HEADER_BYTES], len(sealed), key, name, lambda at, size: sealed[at : at + size])
    return reader.fetch(0, reader.size)


class _Cipher:
    def __init__(self, header: bytes, key: DataKey, name: str) -> None:
        salt = header[len(MAGIC) + KEY_ID_BYTES : -_PREFIX_BYTES]
        self._prefix = header[-_PREFIX_BYTES:]
        info = b"holdfast object\0" + name.encode()
        self._aead = AESGCM(HKDF(SHA256(), KEY_BYTES, salt, info).derive(key.secret))
        self._name = name

    def seal(self, number: int, content: bytes | bytearray | memoryview, *, last: bool) -> bytes:
        return self._aead.encrypt(self._nonce(number, last), content, None)

    def unseal(self, number: int, segment: bytes | memoryview, *, last: bool) -> bytes:
        try:
            return self._aead.decrypt(self._nonce(number, last), segment, None)
        except InvalidTag:
            raise DamagedError(
                f"{self._name} is damaged: its encrypted bytes are not those that were written under this name"
            ) from None

    def _nonce(self, number: int, last: bool) -> bytes:
        return self._prefix + struct.pack(">I?", number, last)


class SealingWriter(io.RawIOBase):
    """File that sends a header, then each segment of its content sealed; closing it sends nothing."""

    def __init__(self, send: Callable[[bytes], object], key: DataKey, name: str) -> None:
        header = MAGIC + key.id + os.urandom(_SALT_BYTES + _PREFIX_BYTES)
        self._cipher = _Cipher(header, key, name)
        self._send = send
        self._waiting = bytearray()
        self._segments = 0
        self._size = 0
        send(header)

    def write(self, data: Buffer, /) -> int:
        length = memoryview(data).nbytes
        self._waiting += data
        self._size += length
        while len(self._waiting) > _CONTENT_BYTES:  # a last segment may be full
            self._send(self._cipher.seal(self._segments, self._waiting[:_CONTENT_BYTES], last=False))
            self._segments += 1
            del self._waiting[:_CONTENT_BYTES]
        return length

    def finish(self) -> None:
        """Seal and send the last segment, without which the object is none."""
        self._send(self._cipher.seal(self._segments, self._waiting, last=True))
        self._waiting.clear()

    def tell(self) -> int:
        return self._size

    def writable(self) -> bool:
        return True


class Unsealer:
    """Reader of parts of one sealed object.

    :param sealed_size: of the whole object; DamagedError: no sealed object has that size.
    :param fetch: gives its bytes from an offset, of a length that lies within it.
    """

    def __init__(
        self, header: bytes, sealed_size: int, key: DataKey, name: str, fetch: Callable[[int, int], bytes]
    ) -> None:
        self.size = content_size(sealed_size)
        if self.size < 0:
            raise DamagedError(f"{name} is damaged: it was cut off")
        self._last = (sealed_size - HEADER_BYTES - 1) // _SEGMENT_BYTES
        self._sealed_size = sealed_size
        self._cipher = _Cipher(header, key, name)
        self._fetch = fetch
        self._newest: tuple[int, bytes] = (-1, b"")

    def fetch(self, offset: int, length: int) -> bytes:
        """Return the content from an offset, of a length within it; DamagedError: not what was written."""
        first, skip = divmod(offset, _CONTENT_BYTES)
        last = max(first, (offset + length - 1) // _CONTENT_BYTES)
        if first == last == self._newest[0]:
            return self._newest[1][skip : skip + length]
        pieces = [
            content
            for number in range(first, last + 1, _SEGMENTS_AT_ONCE)
            for content in self._contents(number, min(number + _SEGMENTS_AT_ONCE - 1, last))
        ]
        pieces[0] = pieces[0][skip:]
        pieces[-1] = pieces[-1][: length - sum(map(len, pieces[:-1]))]
        return b"".join(pieces)

    def _contents(self, first: int, last: int) -> Iterator[bytes]:
        begin = HEADER_BYTES + first * _SEGMENT_BYTES
        end = min(HEADER_BYTES + (last + 1) * _SEGMENT_BYTES, self._sealed_size)
        sealed = memoryview(self._fetch(begin, end - begin))
        for number in range(first, last + 1):
            at = (number - first) * _SEGMENT_BYTES
            content = self._cipher.unseal(number, sealed[at : at + _SEGMENT_BYTES], last=number == self._last)
            self._newest = number, content
            yield content
