"""Put damaged or missing files of an archive back from a copy of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.archive.named import files_of
from holdfast.archive.placed import load
from holdfast.archive.transfer import replace_file
from holdfast.errors import DamagedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holdfast.archive.archive import Archive


@dataclass(frozen=True)
class Repaired:
    """What became of damaged files.

    :param files: that are now what was written, by path.
    :param left: path and reason of those that are not.
    """

    files: tuple[str, ...]
    left: Mapping[str, str]


def check_copy(archive: Archive, copy: Archive) -> None:
    """Make sure that one archive is a copy of another.

    :raises UsageError: it is not, or it is the same place.
    """
    if copy.store.url == archive.store.url:
        raise UsageError(f"{copy.store.url} is the damaged archive itself: name a copy of it")
    if copy.identity.id != archive.identity.id:
        raise UsageError(
            f"{copy.store.url} is no copy of {archive.store.url}, but another archive ({copy.identity.name})"
        )


def repair(archive: Archive, copy: Archive, paths: Iterable[str], *, check: Callable[[], None]) -> Repaired:
    """Put files back, each after its checksum in the copy was compared with what the archive's commits say.

    A file that the copy does not have, or not whole, stays as it is. Commits are not put back.

    :param paths: of the damaged files.
    :param check: raises if the locks of this work are no longer held.
    """
    load(archive.state.blocks.values())
    named = {file.path: file for placed in archive.state.blocks.values() for file in files_of(placed)}
    files: list[str] = []
    left: dict[str, str] = {}
    for path in paths:
        if path not in named:
            left[path] = "it is no file of a block: see the runbook 'An archive is damaged'"
            continue
        check()
        try:
            replace_file(copy.store, archive.store, named[path].record)
        except DamagedError as error:
            left[path] = str(error)
        else:
            files.append(path)
    return Repaired(tuple(files), left)
