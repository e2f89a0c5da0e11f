"""Store of locks in a folder: on this machine, or on a file server that several share."""

from __future__ import annotations

import builtins
import contextlib
import errno
import os
import stat
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING

from locking.store import (
    Listing,
    ObjectExists,
    ObjectInfo,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreOutcomeUnknown,
    StoreUnavailable,
    check_listed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LARGEST = 1 << 20  # bytes of an object that are read; a record has a thousandth of it

WRITE_BUFFER = 1 << 20  # bytes gathered before a bulk write goes to the file system

TEMPORARY_PREFIX = ".holdfast-tmp-"  # of names in the folder itself, of files that are still being written

_ATTEMPTS = 4  # to make a folder and put a file in it: others remove folders that are empty

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP}
_DOUBTFUL = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SharedFolder:
    """Store of locks in a folder, a file for each object; a :class:`locking.LockStore`.

    Files appear complete and durable: written beside, fsynced, then renamed. Their times are the file system's own,
    also on a network file system. Symbolic links below the folder are refused: they could lead out of it. Rights are
    those that the process gives to new files: who shares the locks must be able to write and delete there. It excludes
    the locks of an archive in the same folder, too.

    :param root: the folder; it is made when it is first needed
    """

    # One pass over a directory is no snapshot and follows no order: it can miss a client whose
    # intent goes while its target comes.
    listing_is_ordered = False

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = Path(root).resolve()

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        infos: builtins.list[ObjectInfo] = []
        with self._errors("list", prefix, writes=False):
            now = self._now()
            for key, entry in self._walk(prefix.rpartition("/")[0], prefix, start_after):
                if key > start_after and (info := info_of(key, entry)) is not None:
                    infos.append(info)
                    check_listed(prefix, len(infos), most)
        return Listing(tuple(sorted(infos, key=lambda info: info.key)), now)

    def get(self, key: str) -> bytes:
        path = self._path(key)
        with self._errors("read", key, writes=False), open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            _must_be_file(key, status)
            return file.read(self._most_bytes(key, status.st_size))

    def put(self, key: str, body: bytes) -> None:
        self._write(key, body, Path.replace)

    def touch(self, key: str, body: bytes) -> None:
        del body
        path = self._path(key)
        with self._errors("touch", key, writes=True):
            os.utime(path, follow_symlinks=False)

    def delete(self, key: str) -> None:
        path = self._path(key)
        with self._errors("delete", key, writes=True), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()

    def _most_bytes(self, key: str, size: int) -> int:
        del key, size
        return LARGEST

    def _path(self, key: str) -> Path:
        if key.startswith("/") or ".." in key.split("/"):
            raise StoreDenied(f"{key} is outside of {self._root}.")
        path = self._root / key
        name, end = str(path), len(str(self._root))
        while not os.path.islink(name[:end]):  # noqa: PTH114 - Path.resolve() takes ten times as long
            if end == len(name):
                return path
            end = name.find("/", end + 1)
            end = len(name) if end < 0 else end
        raise StoreDenied(f"{key} is, or is behind, a symbolic link, and those could lead out of {self._root}.")

    def _write(self, key: str, body: bytes, give_name: Callable[[Path, Path], object]) -> None:
        path = self._path(key)
        with self._temporary(key) as (temporary, file):
            with self._errors("write", key, writes=True):
                file.write(body)
            self._publish(key, file, temporary, path, give_name)

    @contextlib.contextmanager
    def _temporary(self, key: str) -> Iterator[tuple[Path, IO[bytes]]]:
        temporary = self._scratch()
        with self._errors("write", key, writes=True):
            self._make_root()
            file = open(temporary, "xb", buffering=WRITE_BUFFER, opener=self._open_new)  # noqa: SIM115 - closed below
        try:
            yield temporary, file
        finally:
            # What could not be flushed is being thrown away: its error was raised above.
            with contextlib.suppress(OSError):
                file.close()
            with contextlib.suppress(OSError):
                temporary.unlink()

    def _publish(
        self, key: str, file: IO[bytes], temporary: Path, path: Path, give_name: Callable[[Path, Path], object]
    ) -> None:
        """Make the file durable, give it its name, and make the name durable."""
        with self._errors("write", key, writes=True):
            file.flush()
            os.fsync(file.fileno())
            for number in range(1, _ATTEMPTS + 1):
                try:
                    self._make_below(path.parent)
                    give_name(temporary, path)
                    break
                except FileNotFoundError:
                    if number == _ATTEMPTS:
                        raise
        try:
            sync_folder(path.parent)
        except OSError as error:
            raise StoreOutcomeUnknown(
                f"Whether {key!r} would survive a power failure is not known: {error.strerror}."
            ) from error

    def _make_root(self) -> None:
        try:
            if not self._root.is_dir():
                self._root.parent.mkdir(parents=True, exist_ok=True)
                self._make(self._root)
                if not self._root.is_dir():
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        except (FileExistsError, NotADirectoryError, FileNotFoundError) as error:
            raise StoreError(
                f"No folder can be made at {self._root} ({error.strerror}): choose another folder."
            ) from error

    def _make_below(self, folder: Path) -> None:
        """Make a folder below the root, and those between, and make their names durable."""
        missing = []
        while folder != self._root and not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for name in reversed(missing):
            self._make(name)
            sync_folder(name.parent)

    def _make(self, folder: Path) -> None:
        with contextlib.suppress(FileExistsError):
            folder.mkdir()

    def _open_new(self, path: str, flags: int) -> int:
        return os.open(path, flags, 0o666)

    def _scratch(self) -> Path:
        return self._root / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"

    def _now(self) -> datetime:
        """Return the file system's present time, from a scratch file: a server may keep another."""
        scratch = self._scratch()
        try:
            descriptor = os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except OSError as error:
            if error.errno in _DENIED | _FULL | {errno.ENOENT, errno.ENOTDIR}:
                # A process that cannot write here cannot end a lock either, so our clock will do.
                return datetime.fromtimestamp(time.time(), UTC)
            raise
        try:
            return _time(os.fstat(descriptor))
        finally:
            with contextlib.suppress(OSError):
                os.close(descriptor)
                scratch.unlink(missing_ok=True)

    def _walk(self, folder: str, prefix: str, start_after: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        path = self._path(folder) if folder else self._root
        try:
            entries = os.scandir(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        with entries:
            for entry in entries:
                key = f"{folder}/{entry.name}" if folder else entry.name
                if not folder and entry.name.startswith(TEMPORARY_PREFIX):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    inside = f"{key}/"
                    may_start = inside.startswith(prefix) or prefix.startswith(inside)
                    if may_start and (inside > start_after or start_after.startswith(inside)):
                        yield from self._walk(key, prefix, start_after)
                elif key.startswith(prefix):
                    yield key, entry

    @contextlib.contextmanager
    def _errors(self, action: str, key: str, *, writes: bool) -> Iterator[None]:
        """Turn the system's errors of the block into the store's."""
        try:
            yield
        except OSError as error:
            raise self._meaning(action, key, error, writes=writes) from error

    def _meaning(self, action: str, key: str, error: OSError, *, writes: bool) -> StoreError:
        if isinstance(error, FileExistsError):
            return ObjectExists(f"{key} is there already.")
        misplaced = isinstance(error, (NotADirectoryError, IsADirectoryError))
        if isinstance(error, FileNotFoundError) or (misplaced and not writes):
            return ObjectNotFound(f"{key} is not there.")
        if writes and error.errno in _FULL:
            return self._full(f"No room left to {action} {key!r} ({error.strerror}): free some and try again.")
        if error.errno in _DENIED:
            return StoreDenied(
                f"Not allowed to {action} {key!r} ({error.strerror}): check who may write in {self._root}."
            )
        if misplaced:
            return StoreError(f"Could not {action} {key!r}: a file is where a folder should be, or the reverse.")
        if not writes:
            return StoreUnavailable(f"Could not {action} {key!r}: {error.strerror or error}.")
        if error.errno in _DOUBTFUL:
            return StoreOutcomeUnknown(
                f"Whether {key!r} was changed is not known ({error.strerror}): look before trying again."
            )
        return StoreError(f"Could not {action} {key!r}: {error.strerror or error}.")

    def _full(self, message: str) -> StoreError:
        return StoreError(message)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def info_of(key: str, entry: os.DirEntry[str]) -> ObjectInfo | None:
    """Return a listed file; None where it has gone meanwhile."""
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    _must_be_file(key, status)  # left out, it could hide a lock or a commit from a listing
    return info_by(key, status)


def info_by(key: str, status: os.stat_result) -> ObjectInfo:
    """Return a file's information by its status."""
    # A changed object is another file, or at least a later one.
    etag = f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"
    return ObjectInfo(key=key, size=status.st_size, modified=_time(status), etag=etag)


def is_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode)


def _must_be_file(key: str, status: os.stat_result) -> None:
    if not is_file(status):
        raise StoreError(f"{key} is no regular file; remove it: a store's folder holds files and folders only.")


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for a writer: a pipe may be in its place."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _time(status: os.stat_result) -> datetime:
    return _EPOCH + timedelta(microseconds=status.st_mtime_ns // 1000)
