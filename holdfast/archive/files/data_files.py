"""A block's files: written once under a name of their own, and verified when they are read whole."""

from __future__ import annotations

import hashlib
import io
import secrets
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Protocol, cast

from holdfast.archive.format.document import FileRecord
from holdfast.common.errors import DamagedError
from locking.store import ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from holdfast.storage import ObjectStore

PIECE_BYTES = 4 << 20
"""Read at once of what is not kept: with what an upload keeps, about 35 MB for each file that is on its way."""

REMEDY = "put it back from a copy of the archive, or restore another restore point"


def table_folder(source: str, table: str, block: str) -> str:
    """Return the folder of a table's snapshot files, by ids, since names change."""
    return f"data/{source}/{table}/snapshot/{block}"


def new_attempt() -> str:
    """Return a name that no other attempt has: a retry or a speculative twin overwrites nothing."""
    return secrets.token_hex(6)


class Writable(Protocol):
    """Store that new files are written to, such as an ObjectStore."""

    def open_write(self, key: str) -> AbstractContextManager[IO[bytes]]:
        """Open a new file, which exists once the `with` block has ended well."""
        ...


class ReadableStore(Protocol):
    """Store that files are read from, such as an ObjectStore."""

    url: str

    def open_read(self, key: str) -> IO[bytes]:
        """Open a seekable file; raises :class:`ObjectNotFound`."""
        ...


def write_bytes(store: ObjectStore, path: str, body: bytes) -> FileRecord:
    """Store a small file of a block."""
    with store.open_write(path) as file:
        file.write(body)
    return FileRecord(path=path, size=len(body), sha256=hashlib.sha256(body).hexdigest())


def read_file(store: ReadableStore, record: FileRecord) -> bytes:
    """Return a file's bytes after verifying their checksum.

    :raises DamagedError: the file is missing, cut or changed; it is named.
    """
    with _there(store, record), store.open_read(record.key) as file:
        whole = record.offset is None
        body = read_at_most(file, record.size + 1) if whole else read_range(file, record.offset or 0, record.size)
    _compare(store, record, len(body), hashlib.sha256(body))
    return body


def read_at_most(file: IO[bytes], size: int) -> bytes:
    """Read up to a number of bytes: a file may have grown beyond all memory."""
    found = []
    while size > 0 and (more := file.read(size)):
        found.append(more)
        size -= len(more)
    return b"".join(found)


def read_range(file: IO[bytes], offset: int, size: int) -> bytes:
    """Read `size` bytes from an offset, or fewer where the file ends before."""
    exact = file.raw if isinstance(file, io.BufferedReader) else file  # it would read ahead
    try:
        exact.seek(offset)
    except OSError:  # files of some stores have nothing behind their end
        return b""
    body = b""
    while len(body) < size and (more := exact.read(size - len(body))):
        body += more
    return body


def open_file(store: ReadableStore, record: FileRecord) -> IO[bytes]:
    """Open a file without verifying its checksum; a part of a pack is read whole, and verified.

    :raises DamagedError: it is missing, or it is a part of a pack and was cut or changed.
    """
    if record.offset is not None:
        return io.BytesIO(read_file(store, record))
    with _there(store, record):
        return store.open_read(record.key)


def check_file(store: ReadableStore, record: FileRecord) -> None:
    """Verify an object's size and checksum, with few of its bytes in memory.

    :raises DamagedError: as `read_file` does.
    """
    found, size = hashlib.sha256(), 0
    with _there(store, record), store.open_read(record.key) as file:
        for piece in pieces(file):
            found.update(piece)
            size += len(piece)
            if size > record.size:
                break
    _compare(store, record, size, found)


def check_footer(store: ReadableStore, record: FileRecord) -> bytes:
    """Verify the footer of a data file, and return its bytes, with the size of it that ends the file.

    Pages have checksums of their own, which readers compare; these are enough where the footer is right. A file that
    was written before footers had checksums is read whole.

    :raises DamagedError: as `read_file` does.
    """
    end = (record.offset or 0) + record.size
    if record.footer is None:
        check_file(store, record)
        with _there(store, record), store.open_read(record.key) as file:
            length = int.from_bytes(read_range(file, end - 8, 4), "little") + 8
            return read_range(file, end - length, length)
    size, _, sha256 = record.footer.partition(":")
    with _there(store, record), store.open_read(record.key) as file:
        body = read_range(file, end - int(size), int(size))
    if len(body) != int(size) or hashlib.sha256(body).hexdigest() != sha256:
        raise DamagedError(f"{record.path} in {store.url} is damaged: its footer is not what was written: {REMEDY}")
    return body


def pieces(file: IO[bytes]) -> Iterator[memoryview]:
    """Yield a file's content, in pieces that are overwritten by the next: the system clears new memory."""
    buffer = memoryview(bytearray(PIECE_BYTES))
    read = cast("io.RawIOBase", file).readinto
    while length := read(buffer):
        yield buffer[:length]


@contextmanager
def _there(store: ReadableStore, record: FileRecord) -> Iterator[None]:
    """Raise DamagedError for a file that is missing, or goes while it is read."""
    try:
        yield
    except ObjectNotFound as error:
        raise DamagedError(f"{record.path} is missing from {store.url}: {REMEDY}") from error


def _compare(store: ReadableStore, record: FileRecord, size: int, found: hashlib._Hash) -> None:
    if size > record.size:
        raise DamagedError(
            f"{record.path} in {store.url} is damaged: it has more than the {record.size} bytes that were written: "
            f"{REMEDY}"
        )
    if size != record.size or found.hexdigest() != record.sha256:
        raise DamagedError(
            f"{record.path} in {store.url} is damaged: it has {size} bytes with another checksum than the "
            f"{record.size} bytes that were written: {REMEDY}"
        )
