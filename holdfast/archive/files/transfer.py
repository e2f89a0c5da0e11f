"""Transfer of a block's files from one store to another: as written, or not at all."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from holdfast.archive.files.data_files import pieces, read_file, write_bytes
from holdfast.common.errors import DamagedError
from locking.store import ObjectNotFound

if TYPE_CHECKING:
    from holdfast.archive.format.document import FileRecord
    from holdfast.storage import ObjectStore


def send_file(source: ObjectStore, target: ObjectStore, file: FileRecord) -> None:
    """Copy a file of any size to a store that lacks it; within one service, the service copies.

    :raises DamagedError: it is missing, or not what was written: then nothing of it appears.
    """
    if target.copy_from(source, file.path, file.size, file.sha256):
        return
    found, size = hashlib.sha256(), 0
    try:
        with source.open_read(file.path) as incoming, target.open_write(file.path) as outgoing:
            for piece in pieces(incoming):
                found.update(piece)
                size += len(piece)
                if size > file.size:  # it may have grown beyond all room that the target has
                    raise _damaged(source, file, f"it has more than the {file.size} bytes written")
                outgoing.write(piece)
            if size != file.size or found.hexdigest() != file.sha256:
                raise _damaged(source, file, f"it has {size} bytes with another checksum than the {file.size} written")
    except ObjectNotFound as error:
        raise _damaged(source, file, "it is missing") from error


def _damaged(source: ObjectStore, file: FileRecord, why: str) -> DamagedError:
    return DamagedError(
        f"{file.path} in {source.url} is damaged: {why}. Put it back from another copy of the archive and copy again: "
        "it goes on from here"
    )


def is_whole(store: ObjectStore, file: FileRecord) -> bool:
    """Read a file, and return whether it exists as it was written."""
    try:
        read_file(store, file)
    except DamagedError:
        return False
    return True


def replace_file(source: ObjectStore, target: ObjectStore, file: FileRecord) -> None:
    """Replace a damaged file by the source's.

    :raises DamagedError: the source's own is not what was written, either: then nothing is changed.
    """
    body = read_file(source, file)
    target.delete(file.path)
    write_bytes(target, file.path, body)
