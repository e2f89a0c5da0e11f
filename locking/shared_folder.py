"""Store of locks in a folder: on this machine, or on a file server that several share."""

from __future__ import annotations

import builtins
import contextlib
import errno
import os
import stat
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from locking.store import (
    Listing,
    ObjectInfo,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreOutcomeUnknown,
    StoreUnavailable,
    check_listed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST = 1 << 20  # bytes of an object that are read; a record has a thousandth of it
_TEMPORARY = ".holdfast-tmp-"
"""Names in the folder itself, of files that are still being written; Holdfast's archives in folders have the same."""

_ATTEMPTS = 4  # attempts to make a folder and put a file in it: others remove folders that are empty
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP}
_DOUBTFUL = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SharedFolder:
    """Store of locks in a folder, a file for each object; a :class:`locking.LockStore`.

    Files appear complete and durable, and their times are the file system's own, also on a network file system. Rights
    are those that the process gives to new files: who shares the locks must be able to write and delete there. It
    excludes the locks of an archive in the same folder, too.

    :param root: the folder; it is made when it is first needed
    """

    # One pass over a directory is no snapshot and follows no order.
    listing_is_ordered = False

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = Path(root).resolve()

    def list(self, prefix: str, *, most: int | None = None) -> Listing:
        infos: builtins.list[ObjectInfo] = []
        try:
            now = self._now()
            for key, status in self._walk(prefix.rpartition("/")[0]):
                if key.startswith(prefix):
                    infos.append(_info(key, status))
                    check_listed(prefix, len(infos), most)
        except OSError as error:
            _raise_read(prefix, error)
        return Listing(tuple(sorted(infos, key=lambda info: info.key)), now)

    def get(self, key: str) -> bytes:
        try:
            # A pipe in its place would be waited for, and a link could lead out of the folder.
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                _must_be_file(key, os.fstat(descriptor))
                return file.read(LARGEST)
        except OSError as error:
            _raise_read(key, error)

    def put(self, key: str, body: bytes) -> None:
        path, scratch = self._path(key), self._scratch()
        try:
            with self._new_file(scratch) as file:
                with open(file, "wb", closefd=False) as writing:
                    writing.write(body)
                os.fsync(file)
                self._place(scratch, path)
        except OSError as error:
            _raise_write(key, error)
        finally:
            with contextlib.suppress(OSError):
                scratch.unlink()

    def touch(self, key: str, body: bytes) -> None:
        del body
        try:
            os.utime(self._path(key), follow_symlinks=False)
        except OSError as error:
            _raise_write(key, error)

    def delete(self, key: str) -> None:
        try:
            self._path(key).unlink(missing_ok=True)
        except OSError as error:
            _raise_write(key, error)

    def _path(self, key: str) -> Path:
        path = self._root / key
        if os.path.realpath(path.parent) != str(path.parent):
            raise StoreDenied(f"{key} is behind a symbolic link, or outside of {self._root}.")
        return path

    def _scratch(self) -> Path:
        return self._root / f"{_TEMPORARY}{uuid.uuid4().hex}"

    @contextlib.contextmanager
    def _new_file(self, path: Path) -> Iterator[int]:
        self._root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _place(self, scratch: Path, path: Path) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                scratch.replace(path)
                break
            except FileNotFoundError:
                if attempt == _ATTEMPTS - 1:
                    raise
        try:
            for folder in (path.parent, *path.parent.parents):
                _sync(folder)
                if folder == self._root:
                    break
        except OSError as error:
            raise StoreOutcomeUnknown(f"Whether {path} would survive a power failure is not known: {error}.") from error

    def _now(self) -> datetime:
        """Return the file system's present time, from a new file: a server may keep another time than we."""
        scratch = self._scratch()
        with self._new_file(scratch) as file:
            try:
                return _time(os.fstat(file))
            finally:
                scratch.unlink(missing_ok=True)

    def _walk(self, folder: str) -> Iterator[tuple[str, os.stat_result]]:
        try:
            entries = os.scandir(self._path(f"{folder}/x").parent if folder else self._root)
        except (FileNotFoundError, NotADirectoryError):
            return
        with entries:
            for entry in entries:
                key = f"{folder}/{entry.name}" if folder else entry.name
                if not folder and entry.name.startswith(_TEMPORARY):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from self._walk(key)
                    continue
                with contextlib.suppress(FileNotFoundError):  # it has gone meanwhile
                    status = entry.stat(follow_symlinks=False)
                    _must_be_file(key, status)  # left out, it could hide a lock from a listing
                    yield key, status


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _must_be_file(key: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{key} is no regular file; remove it: locks are files.")


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    # A changed object is another file, or at least a later one.
    etag = f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"
    return ObjectInfo(key=key, size=status.st_size, modified=_time(status), etag=etag)


def _time(status: os.stat_result) -> datetime:
    return _EPOCH + timedelta(microseconds=status.st_mtime_ns // 1000)


def _raise_read(key: str, error: OSError) -> NoReturn:
    _raise_certain(key, error)
    raise StoreUnavailable(f"Could not read {key!r}: {error.strerror or error}.") from error


def _raise_write(key: str, error: OSError) -> NoReturn:
    _raise_certain(key, error)
    if error.errno in _DOUBTFUL:
        raise StoreOutcomeUnknown(f"Whether {key!r} was changed is not known ({error.strerror}).") from error
    raise StoreError(f"Could not change {key!r}: {error.strerror or error}.") from error


def _raise_certain(key: str, error: OSError) -> None:
    if isinstance(error, (FileNotFoundError, NotADirectoryError, IsADirectoryError)):
        raise ObjectNotFound(f"{key} is not there.") from error
    if error.errno in _DENIED:
        raise StoreDenied(f"Not allowed to read or change {key!r} ({error.strerror}).") from error
