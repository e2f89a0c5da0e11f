"""Archives.yaml as the page reads it: the last file without a mistake."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from holdfast.common.errors import UsageError
from holdfast.config.archives_yaml import find_config, read_archives

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from holdfast.config.archives_model import ArchiveConfig


@dataclass(frozen=True)
class KnownArchives:
    """Archives of the newest archives.yaml of which something could be read.

    :param archives: by name.
    :param mistakes: by name of an archive, what is wrong with its entry.
    :param problem: why the file that is there now cannot be read; "" where it can.
    """

    archives: Mapping[str, ArchiveConfig] = field(default_factory=dict)
    mistakes: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


class Configurations:
    """Reader of archives.yaml that reads again where the file has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: tuple[Path, int, int] | None = None
        self._last = KnownArchives()

    def current(self) -> KnownArchives:
        """Return the configuration. A file that cannot be read leaves that of before, with a `problem`."""
        with self._lock:
            try:
                self._last = self._read()
            except (UsageError, OSError) as error:
                self._last, self._seen = replace(self._last, problem=str(error)), None
            return self._last

    def _read(self) -> KnownArchives:
        path = find_config()
        if path is None:
            return KnownArchives()
        status = path.stat()
        seen = (path, status.st_mtime_ns, status.st_size)
        if seen == self._seen:
            return self._last
        read = read_archives(path)
        self._seen = seen
        return KnownArchives(read.archives, read.mistakes)
