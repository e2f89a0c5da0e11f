"""Store as a pyarrow filesystem, to read many files at once."""

from __future__ import annotations

import atexit
import time
from typing import IO, TYPE_CHECKING, Final, NoReturn
from weakref import WeakSet

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSystemHandler, FileType, PyFileSystem

from holdfast.storage.contract.parts import RangeReader
from locking.store import ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.storage.contract.object_store import ObjectStore

_OPEN: Final[WeakSet[IO[bytes]]] = WeakSet()  # files that Arrow has not let go of yet
_LEAVING_S: Final = 2.0
"""A file is closed in milliseconds once its reader stops; one of a reader that is kept to the end, never."""


@atexit.register
def _leave() -> None:
    """Wait for Arrow's threads at the end of Python.

    They read ahead for a moment after the last row; one that still reads here while Python ends would abort the
    process, or keep it.
    """
    end = time.monotonic() + _LEAVING_S
    while _OPEN and time.monotonic() < end:
        time.sleep(0.005)


class _Unopened(RangeReader):
    """Stand-in for a file that could not be opened, which raises the error when it is read.

    Where opening one raises, or asking for its size, a scan of Arrow (26.0.1) waits for ever, with the locks held.
    """

    def __init__(self, error: Exception) -> None:
        def fetch(offset: int, length: int) -> NoReturn:
            raise error

        super().__init__(1 << 20, fetch)  # of an empty one nothing would be read


class ReadOnly(FileSystemHandler):  # type: ignore[misc]  # it has no types
    """Filesystem that opens objects by their keys, and no more."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @classmethod
    def over(cls, store: ObjectStore) -> PyFileSystem:
        return PyFileSystem(cls(store))

    def get_type_name(self) -> str:
        return "holdfast"

    def normalize_path(self, path: str) -> str:
        return path.removeprefix("/")

    def get_file_info(self, paths: Sequence[str]) -> list[FileInfo]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> FileInfo:
        try:
            return FileInfo(path, FileType.File, size=self._store.head(self.normalize_path(path)).size)
        except ObjectNotFound:
            return FileInfo(path, FileType.NotFound)

    def open_input_file(self, path: str) -> pa.PythonFile:
        try:
            file = self._store.open_read(self.normalize_path(path))
        except Exception as error:  # noqa: BLE001 - every error is raised when the file is read
            reported = FileNotFoundError(path) if isinstance(error, ObjectNotFound) else error
            return pa.PythonFile(_Unopened(reported), mode="r")
        _OPEN.add(file)
        return pa.PythonFile(file, mode="r")

    open_input_stream = open_input_file

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError("files are only read here")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse
