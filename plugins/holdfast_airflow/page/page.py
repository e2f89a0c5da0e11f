"""State of the page, and types of its routes' arguments."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from airflow.configuration import conf
from fastapi import Depends, HTTPException, Path, Request, status

from holdfast.common.errors import UsageError
from holdfast.config.archives_model import NAME
from holdfast.config.archives_yaml import find_config, read_archives
from holdfast_airflow.page.looks import LIMIT_S, MOST, Looks
from holdfast_airflow.page.opened import OpenedArchive

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Mapping

    from holdfast.config.archives_model import ArchiveConfig


@dataclass(frozen=True)
class PageConfiguration:
    """Archives of the newest archives.yaml of which something could be read.

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
        self._seen: tuple[pathlib.Path, int, int] | None = None
        self._last = PageConfiguration()

    def current(self) -> PageConfiguration:
        """Return the configuration. A file that cannot be read leaves that of before, with a `problem`."""
        with self._lock:
            try:
                self._last = self._read()
            except (UsageError, OSError) as error:
                self._last, self._seen = replace(self._last, problem=str(error)), None
            return self._last

    def _read(self) -> PageConfiguration:
        path = find_config()
        if path is None:
            return PageConfiguration()
        status = path.stat()
        seen = (path, status.st_mtime_ns, status.st_size)
        if seen == self._seen:
            return self._last
        read = read_archives(path)
        self._seen = seen
        return PageConfiguration(read.archives, read.mistakes)


SourceName = Annotated[str, Path(pattern=f"^{NAME}$", description="Name of a source in the archive.")]
Txn = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="The lock's transaction.")]
HoldId = Annotated[str, Path(pattern="^[0-9a-f]{12}$", description="Id of the hold.")]


class Page:
    """State of the page: the configuration, and the archives that were looked at."""

    def __init__(self) -> None:
        self.configurations = Configurations()
        limit_s = conf.getfloat("holdfast", "page_time_limit", fallback=LIMIT_S)
        self.looks = Looks(limit_s, conf.getint("holdfast", "page_looks", fallback=MOST))
        self._opened: dict[str, OpenedArchive] = {}

    def opened(self, name: str) -> OpenedArchive:
        """Return an archive of archives.yaml, not opened yet at its first look.

        :raises HTTPException: 404 where archives.yaml does not have it here.
        """
        config = self._config(name)
        opened = self._opened.get(name)
        if opened is None or opened.config != config:
            opened = self._opened[name] = OpenedArchive(config)
        return opened

    def _config(self, name: str) -> ArchiveConfig:
        config = self.configurations.current().archives.get(name)
        if config is None:
            raise HTTPException(
                status.HTTP_404_NOT_FOUND,
                f"archives.yaml, as this API server reads it, has no archive {name}: its record is all there is",
            )
        return config


def _page_of(request: Request) -> Page:
    page: Page = request.app.state.page
    return page


PageDep = Annotated[Page, Depends(_page_of)]
