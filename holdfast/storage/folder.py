"""Object store in a folder of a file system: local, or shared between hosts."""

from __future__ import annotations

import contextlib
import errno
import heapq
import os
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from holdfast.storage.contract.keys import check_key, check_prefix
from holdfast.storage.contract.object_store import ConditionNotSupported, ObjectStore, StoreFull, check_document
from holdfast.storage.contract.parts import TranslatingFile
from holdfast.storage.contract.settings import bad_setting
from locking.shared_folder import SharedFolder, info_by, info_of, is_file
from locking.store import Listing, ObjectExists, ObjectInfo, ObjectNotFound, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyarrow.fs import FileSystem

MODE = "HOLDFAST_FOLDER_MODE"

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}


@dataclass(frozen=True)
class FolderModes:
    """Rights on an archive's folder: its owner's; with ``HOLDFAST_FOLDER_MODE=group`` their group's, too.

    Files and folders have these rights under every umask. A folder that is there already keeps its own.
    """

    folder: int = 0o700
    file: int = 0o600

    @classmethod
    def from_environment(cls) -> FolderModes:
        mode = os.environ.get(MODE, "") or "private"
        if mode not in ("private", "group"):
            raise bad_setting(MODE, mode, "private, group")
        return cls() if mode == "private" else cls(0o750, 0o640)


class FolderStore(SharedFolder, ObjectStore):
    """Object store in a folder, with a file for each object; one that is created is linked to its name."""

    clock_source = "the file system's own times"

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        self._modes = FolderModes.from_environment()
        self.url = str(self._root)

    @classmethod
    def from_url(cls, url: str) -> FolderStore:
        return cls(url)

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        return super().list(check_prefix(prefix), start_after=start_after, most=most)

    def first(self, prefix: str, count: int) -> tuple[ObjectInfo, ...]:
        check_prefix(prefix)
        with self._errors("list", prefix, writes=False):
            # Times and sizes of those that are asked for alone.
            entries = heapq.nsmallest(count, self._walk(prefix.rpartition("/")[0], prefix, ""), key=itemgetter(0))
            return tuple(info for key, entry in entries if (info := info_of(key, entry)) is not None)

    def head(self, key: str) -> ObjectInfo:
        path = self._path(key)
        with self._errors("look at", key, writes=False):
            status = path.lstat()
        if not is_file(status):
            raise ObjectNotFound(f"{key} is not there.")
        return info_by(key, status)

    def create(self, key: str, body: bytes) -> None:
        self._write(key, body, _link)

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
            # Kept: it closes the file when it goes.
            translating = TranslatingFile(file, partial(self._errors, "write", key, writes=True))
            yield cast("IO[bytes]", translating)
            self._publish(key, file, temporary, path, _link)

    def open_read(self, key: str) -> IO[bytes]:
        from pyarrow import OSFile

        self.head(key)  # raises for a folder
        errors = partial(self._errors, "read", key, writes=False)
        with errors():
            return cast("IO[bytes]", TranslatingFile(OSFile(str(self._path(key)), "rb"), errors))

    def _path(self, key: str) -> Path:
        return super()._path(check_key(key))

    def _most_bytes(self, key: str, size: int) -> int:
        check_document(key, size)
        return size

    def _make(self, folder: Path) -> None:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(self._modes.folder)
            with contextlib.suppress(PermissionError):  # a file system that keeps no rights of its own
                folder.chmod(self._modes.folder)

    def _open_new(self, path: str, flags: int) -> int:
        descriptor = os.open(path, flags, self._modes.file)
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, self._modes.file)
        return descriptor

    def _full(self, message: str) -> StoreError:
        return StoreFull(message)


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
