"""Repair of an archive's files and commits from a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.archive.files.file_index import files_of
from holdfast.archive.files.transfer import replace_file
from holdfast.archive.format.block_ref import load
from holdfast.archive.format.commits import commit_key, number_of, parse_commit, read_commit
from holdfast.common.errors import DamagedError, UsageError
from locking.store import ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holdfast.archive.archive import Archive
    from holdfast.archive.files.file_index import NamedFile
    from holdfast.archive.format.model import ArchiveCommit
    from holdfast.storage import ObjectStore


@dataclass(frozen=True)
class Repaired:
    """Result of a repair."""

    files: tuple[str, ...]  # that are now what was written, by path
    left: Mapping[str, str]  # path and reason of those that are not


def check_copy(archive: Archive, copy: Archive) -> None:
    """Raise UsageError for an archive that is no copy of another, or is the same place."""
    if copy.store.url == archive.store.url:
        raise UsageError(f"{copy.store.url} is the damaged archive itself: name a copy of it")
    if copy.identity.id != archive.identity.id:
        raise UsageError(
            f"{copy.store.url} is no copy of {archive.store.url}, but another archive ({copy.identity.name})"
        )


def repair(archive: Archive, copy: Archive, paths: Iterable[str], *, check: Callable[[], None]) -> Repaired:
    """Replace damaged files and commits by those of a copy.

    The checksum of each file in the copy is first compared with what the archive's commits say. One that the copy does
    not have, or not whole, stays as it is. So does a commit, unless the commits on both sides say that it is theirs.

    :param check: raises if the locks of this work are no longer held.
    """
    named: dict[str, NamedFile] = {}
    files: list[str] = []
    unrepaired: dict[str, str] = {}
    for path in sorted(paths, key=lambda path: number_of(path) is None):  # by commits one knows what files are
        number = number_of(path)
        if number is None and not named:
            load(archive.state.blocks.values())
            named = {file.path: file for placed in archive.state.blocks.values() for file in files_of(placed)}
        if path not in named and number is None:
            unrepaired[path] = "it is no file of a block: see the runbook 'An archive is damaged'"
            continue
        check()
        try:
            if number is not None:
                _put_commit_back(archive.store, copy.store, number)
            else:
                replace_file(copy.store, archive.store, named[path].record)
        except DamagedError as error:
            unrepaired[path] = str(error)
        else:
            files.append(path)
    return Repaired(tuple(files), unrepaired)


def _put_commit_back(store: ObjectStore, copy: ObjectStore, number: int) -> None:
    """Replace a commit by the copy's bytes, if the commits around it prove that it is the same."""
    key = commit_key(number)
    commit = read_commit(copy, number)
    before = read_commit(store, commit.parent_sequence) if commit.parent_sequence else None
    if before is not None and not commit.follows(before.id, before.own_checksum):
        raise DamagedError(f"{key} of {copy.url} does not follow the commit before it here: both went different ways")
    if not _is_followed(store, copy, commit):
        raise DamagedError(
            f"no commit behind it tells whether {key} of {copy.url} is the one that was made here. Where nothing was "
            "added to that copy by itself, it is: put it back by hand"
        )
    body = copy.read(key).signed
    store.delete(key)
    store.create_signed(key, body)


def _is_followed(store: ObjectStore, copy: ObjectStore, commit: ArchiveCommit) -> bool:
    """Return whether a copy's commit leads, perhaps by others of the copy, to a whole one here."""
    while True:
        key = commit_key(commit.sequence + 1)
        try:
            return parse_commit(key, store.read(key).body).follows(commit.id, commit.own_checksum)
        except (DamagedError, ObjectNotFound):
            pass
        try:
            following = read_commit(copy, commit.sequence + 1)
        except DamagedError:
            return False
        if not following.follows(commit.id, commit.own_checksum):
            return False
        commit = following
