"""Transfer of files from one store to another: a file arrives as it was written, or not at all."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import TYPE_CHECKING

from holdfast.archive.files.data_files import pieces, read_file, write_bytes
from holdfast.common.errors import DamagedError
from holdfast.common.side_by_side import do_side_by_side
from locking.store import ObjectExists, ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.archive.format.document import FileRecord
    from holdfast.storage import ObjectStore

AT_ONCE = 8
"""Files that are on their way."""

CHUNK_S = 30.0
"""So long files are copied between two looks at locks and leases."""


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


def file_sizes(store: ObjectStore) -> dict[str, int]:
    """Return the sizes of an archive's data files, by path."""
    return {listed.key: listed.size for listed in store.list("data/").objects}


def missing_files(store: ObjectStore, files: Iterable[FileRecord]) -> Iterable[FileRecord]:
    """Yield the files that a store lacks, or has in another size: others were checked when written."""
    by_path = {file.path: file for file in files}
    folders = {path.rpartition("/")[0] + "/" for path in by_path}
    sizes = {item.key: item.size for folder in sorted(folders) for item in store.list(folder).objects}
    return (file for path, file in by_path.items() if sizes.get(path) != file.size)


def send_files(source: ObjectStore, target: ObjectStore, files: Sequence[FileRecord]) -> list[FileRecord]:
    """Copy files to free keys, several at a time; return those with something else at their key.

    Nothing is deleted: a process that was thought to be dead, and goes on, does no harm.

    :raises DamagedError: one is missing, or not what was written: nothing of that one appears.
    """
    are_there = do_side_by_side(lambda file: _send(source, target, file), files, at_once=AT_ONCE)
    return [file for file, is_there in zip(files, are_there, strict=True) if not is_there]


def _send(source: ObjectStore, target: ObjectStore, file: FileRecord) -> bool:
    try:
        send_file(source, target, file)
    except ObjectExists:  # another process was faster, or something else lies there
        return is_whole(target, file)
    return True


def fetch_files(source: ObjectStore, target: ObjectStore, files: Sequence[FileRecord]) -> tuple[int, int]:
    """Copy files to a store, as `send_files`, and replace what lies there; return their number and bytes."""
    for file in send_files(source, target, files):
        replace_file(source, target, file)
    return len(files), sum(file.size for file in files)


class FileCopier:
    """Copier of an archive's missing and damaged files, in chunks of time.

    :param deep: read the files that are there in their size, too, and replace damaged ones.
    :param on_file: called for every file that is there then, from any thread.
    :ivar copied: files by path; `replaced` of them lay there before.
    """

    def __init__(
        self,
        source: ObjectStore,
        target: ObjectStore,
        *,
        deep: bool = False,
        on_file: Callable[[FileRecord], None] = lambda file: None,
    ) -> None:
        self._source = source
        self._target = target
        self._deep = deep
        self._on_file = on_file
        self._sizes = file_sizes(target)
        self._lock = threading.Lock()
        self._passed: set[str] = set()
        self.copied: dict[str, FileRecord] = {}
        self.replaced = 0

    @property
    def copied_size(self) -> int:
        """Return the bytes of all copied files."""
        return sum(file.size for file in self.copied.values())

    def due(self, files: Iterable[FileRecord]) -> list[FileRecord]:
        """Return those of some files that are still to be looked at, each once."""
        due = {file.path: file for file in files if self._deep or self._sizes.get(file.path) != file.size}
        return [file for path, file in due.items() if path not in self._passed]

    def copy(self, files: Sequence[FileRecord], *, seconds: float) -> bool:
        """Copy files that are due, and return whether all are there.

        :param seconds: after so many no file is begun any more, but for the first.
        :raises DamagedError: one is missing in the source, or not what was written.
        """
        until, before = time.monotonic() + seconds, len(self._passed)

        def bring(file: FileRecord) -> bool:
            if time.monotonic() > until and len(self._passed) > before:
                return False
            self._bring(file)
            return True

        return all(do_side_by_side(bring, files, at_once=AT_ONCE))

    def _bring(self, file: FileRecord) -> None:
        size = self._sizes.get(file.path)
        is_kept = size == file.size and is_whole(self._target, file)
        if not is_kept and (size is not None or not _send(self._source, self._target, file)):
            replace_file(self._source, self._target, file)
        with self._lock:
            self._passed.add(file.path)
            if not is_kept:
                self.copied[file.path] = file
                self.replaced += size is not None
            self._on_file(file)
