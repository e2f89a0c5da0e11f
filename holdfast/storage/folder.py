"""An object store in a folder of a file system: local, or shared between hosts."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import heapq
import os
import time
import uuid
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn, cast

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from holdfast.common.cleanup import cleanup
from holdfast.storage.contract.file_errors import TranslatingFile
from holdfast.storage.contract.folder_modes import FolderModes, sync_folder
from holdfast.storage.contract.keys import TEMPORARY_PREFIX, check_key, check_prefix
from holdfast.storage.contract.object_store import ConditionNotSupported, ObjectStore, StoreFull, check_document
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
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyarrow.fs import FileSystem

WRITE_BUFFER = 1 << 20  # bytes gathered before a bulk write goes to the file system
_FOLDER_ATTEMPTS = 4  # attempts to make a folder and put a file in it: others remove folders that are empty
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}
_DOUBTFUL = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT}


class FolderStore(ObjectStore):
    """Object store in a folder, with a file for each object.

    Objects appear under their name complete and durable: written beside, fsynced, then linked (create) or renamed
    (put). Times are the file system's own, also on a network file system. Symbolic links below the root are refused:
    they could lead out of it.
    """

    # One pass over a directory is no snapshot and follows no order: it can miss a client whose
    # intent goes while its target comes.
    listing_is_ordered = False

    clock_source = "the file system's own times"

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = Path(root).resolve()
        self._modes = FolderModes.from_environment()
        self.url = str(self._root)

    @classmethod
    def from_url(cls, url: str) -> FolderStore:
        return cls(url)

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        check_prefix(prefix)
        infos: list[ObjectInfo] = []
        try:
            now = self._clock()
            for key, entry in self._walk(prefix.rpartition("/")[0], prefix, start_after):
                if key > start_after and (info := _info_of(key, entry)) is not None:
                    infos.append(info)
                    check_listed(prefix, len(infos), most)
        except OSError as error:
            _raise_read("list", prefix, error)
        return Listing(tuple(sorted(infos, key=lambda info: info.key)), now)

    def first(self, prefix: str, count: int) -> tuple[ObjectInfo, ...]:
        check_prefix(prefix)
        try:
            # Times and sizes of those that are asked for alone.
            entries = heapq.nsmallest(count, self._walk(prefix.rpartition("/")[0], prefix, ""), key=itemgetter(0))
            return tuple(info for key, entry in entries if (info := _info_of(key, entry)) is not None)
        except OSError as error:
            _raise_read("list", prefix, error)

    def head(self, key: str) -> ObjectInfo:
        return _info(key, self._status(key, self._path(key)))

    @staticmethod
    def _status(key: str, path: Path) -> os.stat_result:
        try:
            status = path.lstat()
        except OSError as error:
            _raise_read("look at", key, error)
        if not _is_file(status):
            raise ObjectNotFound(f"{key} is not there.")
        return status

    def get(self, key: str) -> bytes:
        path = self._path(key)
        try:
            with open(path, "rb", buffering=0, opener=_open_at_once) as file:
                status = os.fstat(file.fileno())
                _must_be_file(key, status)
                check_document(key, status.st_size)
                return file.read()
        except OSError as error:
            _raise_read("read", key, error)

    def put(self, key: str, body: bytes) -> None:
        self._write(key, body, Path.replace)

    def create(self, key: str, body: bytes) -> None:
        self._write(key, body, _link)

    def touch(self, key: str, body: bytes) -> None:
        del body
        path = self._path(key)
        try:
            os.utime(path)
        except OSError as error:
            _raise_write("touch", key, error)

    def delete(self, key: str) -> None:
        path = self._path(key)
        try:
            path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            _raise_write("delete", key, error)

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, StoreError]:
        errors = super().delete_many(keys)
        for folder in {self._path(key).parent for key in keys if key not in errors}:
            self._remove_empty(folder)
        return errors

    def _remove_empty(self, folder: Path) -> None:
        while folder != self._root:
            try:
                folder.rmdir()
            except FileNotFoundError:  # it went with another key
                pass
            except OSError:  # something is in it, and nothing is lost where it stays
                return
            folder = folder.parent

    def filesystem(self) -> tuple[FileSystem, str]:
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem(), str(self._root)

    @contextlib.contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        path = self._path(key)
        if path.exists():
            raise ObjectExists(f"{key} is there already.")
        with self._temporary(key) as (temporary, file):
            translating = TranslatingFile(
                file, partial(_errors, _raise_write, "write", key)
            )  # kept: it closes the file when it goes
            yield cast("IO[bytes]", translating)
            self._publish(key, file, temporary, path, _link)

    def open_read(self, key: str) -> IO[bytes]:
        from pyarrow import OSFile

        path = self._path(key)
        self._status(key, path)  # raises for a folder
        errors = partial(_errors, _raise_read, "read", key)
        with errors():
            return cast("IO[bytes]", TranslatingFile(OSFile(str(path), "rb"), errors))

    def _path(self, key: str) -> Path:
        path = self._root / check_key(key)
        name, end = str(path), len(self.url)
        while not os.path.islink(name[:end]):  # noqa: PTH114 - Path.resolve() takes ten times as long
            if end == len(name):
                return path
            end = name.find("/", end + 1)
            end = len(name) if end < 0 else end
        raise self._symbolic_link(key)

    def _symbolic_link(self, path: object) -> StoreDenied:
        return StoreDenied(f"{path} is, or is behind, a symbolic link, and those could lead out of {self.url}.")

    def _write(self, key: str, body: bytes, give_name: Callable[[Path, Path], object]) -> None:
        path = self._path(key)
        with self._temporary(key) as (temporary, file):
            try:
                file.write(body)
            except OSError as error:
                _raise_write("write", key, error)
            self._publish(key, file, temporary, path, give_name)

    @contextlib.contextmanager
    def _temporary(self, key: str) -> Iterator[tuple[Path, IO[bytes]]]:
        temporary = self._scratch()
        try:
            self._make_root()
            file = open(temporary, "xb", buffering=WRITE_BUFFER, opener=self._modes.open)  # noqa: SIM115 - closed below
        except OSError as error:
            _raise_write("write", key, error)
        try:
            yield temporary, file
        finally:
            # What could not be flushed is being thrown away: its error was raised above.
            with contextlib.suppress(OSError):
                file.close()
            with contextlib.suppress(OSError):
                temporary.unlink()

    def _make_root(self) -> None:
        try:
            if not self._root.is_dir():
                self._root.parent.mkdir(parents=True, exist_ok=True)
                self._modes.make(self._root)
                if not self._root.is_dir():
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        except (FileExistsError, NotADirectoryError, FileNotFoundError) as error:
            raise StoreError(
                f"No folder can be made at {self.url} ({error.strerror}): choose another folder."
            ) from error

    def _publish(
        self, key: str, file: IO[bytes], temporary: Path, path: Path, give_name: Callable[[Path, Path], object]
    ) -> None:
        try:
            file.flush()
            os.fsync(file.fileno())
            for attempt in _against_tidying():
                with attempt:
                    self._modes.make_below(path.parent, self._root)
                    give_name(temporary, path)
        except OSError as error:
            _raise_write("write", key, error)
        _sync_names(path.parent)

    def _scratch(self) -> Path:
        return self._root / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"

    def _clock(self) -> datetime:
        """Return the file system's present time, from a scratch file: a server may keep another."""
        scratch = self._scratch()
        try:
            descriptor = os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except OSError as error:
            if error.errno in _DENIED | _FULL | {errno.ENOENT, errno.ENOTDIR}:
                # A process that cannot write here cannot end a lock either, so our clock will do.
                return datetime.fromtimestamp(time.time(), UTC)
            raise
        with cleanup(lambda: os.close(descriptor), lambda: scratch.unlink(missing_ok=True)):
            return _time(os.fstat(descriptor))

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
                    if _may_start(inside, prefix) and (inside > start_after or start_after.startswith(inside)):
                        yield from self._walk(key, prefix, start_after)
                elif key.startswith(prefix):
                    yield key, entry


def _may_start(folder: str, prefix: str) -> bool:
    return folder.startswith(prefix) or prefix.startswith(folder)


def _info_of(key: str, entry: os.DirEntry[str]) -> ObjectInfo | None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    _must_be_file(key, status)  # left out, it could hide a lock or a commit from a listing
    return _info(key, status)


def _must_be_file(key: str, status: os.stat_result) -> None:
    if not _is_file(status):
        raise StoreError(f"{key} is no regular file; remove it: a store's folder holds files and folders only.")


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for a writer: a pipe may be in its place."""
    return os.open(path, flags | os.O_NONBLOCK)


def _is_file(status: os.stat_result) -> bool:
    return status.st_mode & 0o170000 == 0o100000


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    # A changed object is another file, or at least a later one.
    identity = f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"
    etag = hashlib.sha256(identity.encode()).hexdigest()[:32]
    return ObjectInfo(key=key, size=status.st_size, modified=_time(status), etag=etag)


def _time(status: os.stat_result) -> datetime:
    seconds, rest = divmod(status.st_mtime_ns, 10**9)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)


def _link(temporary: Path, path: Path) -> None:
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        # A network file system repeats a link whose answer was lost, and then finds its own.
        if temporary.stat().st_nlink != 2:
            raise
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise ConditionNotSupported(
                f"The file system of {path.parent} has no hard links ({error.strerror}), without which a file "
                "cannot be created only where none is; use another folder."
            ) from error
        raise


def _against_tidying() -> Retrying:
    return Retrying(
        retry=retry_if_exception_type(FileNotFoundError), stop=stop_after_attempt(_FOLDER_ATTEMPTS), reraise=True
    )


def _sync_names(folder: Path) -> None:
    try:
        sync_folder(folder)
    except OSError as error:
        raise StoreOutcomeUnknown(
            f"Whether what was written in {folder} would survive a power failure is not known: {error.strerror}."
        ) from error


@contextlib.contextmanager
def _errors(meaning: Callable[[str, str, OSError], NoReturn], action: str, key: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        meaning(action, key, error)


def _raise_read(action: str, key: str, error: OSError) -> NoReturn:
    if isinstance(error, (NotADirectoryError, IsADirectoryError)):
        raise ObjectNotFound(f"{key} is not there.") from error
    _raise_certain(action, key, error)
    raise StoreUnavailable(f"Could not {action} {key!r}: {error.strerror or error}.") from error


def _raise_write(action: str, key: str, error: OSError) -> NoReturn:
    _raise_certain(action, key, error)
    if error.errno in _DOUBTFUL:
        raise StoreOutcomeUnknown(
            f"Whether {key!r} was changed is not known ({error.strerror}): look before trying again."
        ) from error
    raise StoreError(f"Could not {action} {key!r}: {error.strerror or error}.") from error


def _raise_certain(action: str, key: str, error: OSError) -> None:
    if isinstance(error, FileExistsError):
        raise ObjectExists(f"{key} is there already.") from error
    if isinstance(error, FileNotFoundError):
        raise ObjectNotFound(f"{key} is not there.") from error
    if error.errno in _FULL:
        raise StoreFull(f"No room left to {action} {key!r} ({error.strerror}): free some and try again.") from error
    if error.errno in _DENIED:
        raise StoreDenied(
            f"Not allowed to {action} {key!r} ({error.strerror}): check who may write in the archive's folder."
        ) from error
    if error.errno in {errno.ENOTDIR, errno.EISDIR}:
        raise StoreError(f"Could not {action} {key!r}: a file is where a folder should be, or the reverse.") from error
