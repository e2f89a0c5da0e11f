"""A store as a pyarrow filesystem, for what reads many files at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSystemHandler, FileType, PyFileSystem

from locking.store import ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.storage.base import ObjectStore


class ReadOnly(FileSystemHandler):  # type: ignore[misc]  # it has no types
    """Opens objects by their keys, and can do nothing else."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @classmethod
    def over(cls, store: ObjectStore) -> PyFileSystem:
        """Return the filesystem of a store."""
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
            return pa.PythonFile(self._store.open_read(self.normalize_path(path)), mode="r")
        except ObjectNotFound as error:
            raise FileNotFoundError(path) from error

    open_input_stream = open_input_file

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError("files are only read here")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse
