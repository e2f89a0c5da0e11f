"""Copying of an archive: files first, then commits, its identity last.

A copy that was not finished is never taken for a whole one: before `archive.json` is there, the place is no archive.
An earlier copy gets commits only when every file that the newest of them names is there. A commit in between may name
a block that was removed since: it is created after the ones that follow it, so that until then a number is missing.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from holdfast.archive import locks
from holdfast.archive.archive import CHECKPOINTS_SINCE, IDENTITY_KEY, Archive
from holdfast.archive.files.transfer import AT_ONCE, CHUNK_S, FileCopier, file_sizes
from holdfast.archive.format.block_ref import load
from holdfast.archive.format.checkpoint import write_checkpoint
from holdfast.archive.format.claim import claim
from holdfast.archive.format.commits import COMMITS, commit_key, number_of, parse_commit
from holdfast.archive.format.model import Identity
from holdfast.archive.format.runs import RunLog
from holdfast.archive.history.restore_points import source_names
from holdfast.common.errors import DamagedError, RefusedError, UsageError
from holdfast.common.side_by_side import do_side_by_side
from locking import Owner
from locking.store import ObjectNotFound, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.archive.format.document import FileRecord
    from holdfast.archive.format.model import ArchiveCommit
    from holdfast.archive.format.state import State
    from holdfast.storage import ObjectStore

_PATIENCE_S = 120.0
"""A vacuum that has its turn ends within 30 s."""

_NOT_COPIED = ("keys/", "locks/", "probes/")
"""What may be in a place that nobody uses yet."""


@dataclass(frozen=True)
class Copied:
    """Result of a copy, or of a planned one.

    :param commit: the newest that the copy has; `commits`: how many were added.
    :param files, size: that were copied; `skipped`: files that were there, `replaced`: were there and damaged.
    :param left_out: why the commits behind that one are not copied; "" where there are none.
    """

    archive: Identity
    commit: int
    commits: int
    files: int
    size: int
    skipped: int
    replaced: int = 0
    left_out: str = ""


@dataclass(frozen=True)
class CopyProgress:
    """Progress of a copy: files and bytes copied, of those missing."""

    files: int
    all_files: int
    size: int
    all_size: int


def plan(source: ObjectStore, target: ObjectStore, *, before_damage: bool = False) -> Copied:
    """Plan a copy, and write nothing; as `copy`."""
    archive, since = _examine(source, target, before_damage)
    sizes = file_sizes(target)
    files = _files(archive.state)
    missing = [file for file in files if sizes.get(file.path) != file.size]
    return Copied(
        archive=archive.identity,
        commit=archive.state.sequence,
        commits=len(archive.state.numbers(since)),
        files=len(missing),
        size=sum(file.size for file in missing),
        skipped=len(files) - len(missing),
        replaced=sum(file.path in sizes for file in missing),
        left_out=archive.state.cut_off,
    )


def copy(
    source: ObjectStore,
    target: ObjectStore,
    *,
    deep: bool = False,
    before_damage: bool = False,
    wait: float = 0.0,
    on_progress: Callable[[CopyProgress], None] = lambda progress: None,
) -> Copied:
    """Copy an archive, or bring an earlier copy up to date; a copy that was not finished goes on.

    Where the target's store has a key, the copy is encrypted, whatever the source is.

    :param target: an empty place, or a copy of this archive to which nothing was added.
    :param deep: read the files that are there already, too, and replace damaged ones.
    :param before_damage: leave out what is behind a commit that is damaged or missing.
    :param on_progress: called for every file, from any thread.
    :raises UsageError: there is no archive, or the target is no place for a copy of it.
    :raises RefusedError: the target has other commits, cannot create if absent, or has no key for what is encrypted.
    :raises DamagedError: a file or commit of the source is not what was written; nothing of it is in the copy.
    """
    _examine(source, target, before_damage)  # nothing is written, not even a lock, where nothing can be copied
    with ExitStack() as held:
        chunk = held.enter_context(ExitStack())
        take = partial(locks.acquire, owner=Owner(), purpose=f"copy of {source.url} to {target.url}")
        sides = [(source, "source-side", chunk), (target, "copy", held)]
        taken = {
            operation: stack.enter_context(take(store, operation, wait=wait))
            for store, operation, stack in sorted(sides, key=lambda each: each[0].url)
        }
        archive, since = _examine(source, target, before_damage)
        log = _begin(archive, target)
        held.push(log)
        copying = _Copying(archive, target, deep=deep, on_progress=on_progress)
        while not copying.bring_files(CHUNK_S):
            taken["copy"].check()
            chunk.close()
            chunk.enter_context(take(source, "source-side", wait=max(wait, _PATIENCE_S)))
            archive.refresh()
        copying.check_files()
        log.progress("adding commits")
        taken["copy"].check()
        copying.add_commits(since)
        result = copying.result(since)
        log.result = {
            "commit": result.commit,  # verification finds by it that the newest commits are missing
            "source": ", ".join(source_names(archive.state)),
            "commits": result.commits,
            "files": result.files,
            "bytes": result.size,
        }
        return result


def _examine(source: ObjectStore, target: ObjectStore, before_damage: bool) -> tuple[Archive, int]:
    """Open the source, and return the newest commit that the target has without a hole, or 0."""
    if source.url == target.url:
        raise UsageError(f"{source.url} cannot be copied to itself: name another place")
    if target.url.startswith(f"{source.url.rstrip('/')}/"):
        raise UsageError(
            f"{target.url} is inside {source.url}, where the copy's files would be taken for the archive's: name a "
            "place beside it"
        )
    archive = Archive.open(source, before_damage=before_damage)
    if source.is_encrypted and target.key is None:
        raise RefusedError(
            f"{source.url} is encrypted, and the copy would not be: say where the key of {target.url} is, "
            "with --to-key or in archives.yaml"
        )
    _check_place(archive, target)
    there = [listed.key for listed in target.list(COMMITS).objects if number_of(listed.key)]
    newest = archive.state.sequence
    if there and there[-1] > commit_key(newest):
        raise RefusedError(
            f"{target.url} has {there[-1]}, but {source.url} ends at commit {newest}: they went different ways, or "
            "this is the older of both: copy in the other direction, or to an empty place"
        )
    held = set(there)
    since = max(takewhile(lambda number: commit_key(number) in held, archive.state.numbers()), default=0)
    if since:
        key = commit_key(since)
        _same(archive, target, key, target.read(key).signed)
    return archive, since


def _check_place(archive: Archive, target: ObjectStore) -> None:
    try:
        body = target.read(IDENTITY_KEY).body
    except ObjectNotFound:
        there = [listed.key for listed in target.list("").objects if not listed.key.startswith(_NOT_COPIED)]
        if there and not any(key.startswith(f"runs/{_run(archive)}/") for key in there):
            raise UsageError(
                f"{target.url} is not empty (it holds {there[0]} and {len(there) - 1} more), and no copy of "
                f"{archive.store.url} was begun there: a copy wants a place of its own"
            ) from None
        if there and target.key is not None and not target.is_encrypted:
            raise UsageError(
                f"a copy in the clear was begun in {target.url}: empty it first, or name another place"
            ) from None
        return
    identity = Identity.from_bytes(body, IDENTITY_KEY)
    if identity.id != archive.identity.id:
        raise UsageError(
            f"{target.url} is another archive ({identity.name}, {identity.id}) than {archive.store.url} "
            f"({archive.identity.name}, {archive.identity.id}): copy to an empty place"
        )


def _same(archive: Archive, target: ObjectStore, key: str, body: bytes) -> None:
    """Refuse a target with another commit than the source's."""
    if archive.store.read(key).signed != body:
        raise RefusedError(
            f"{key} of {target.url} is not that of {archive.store.url}: something was added to the copy, or it was "
            "damaged. Copy to an empty place"
        )


def _run(archive: Archive) -> str:
    return f"copy.{archive.identity.id}"


def is_copy(archive: Archive) -> bool:
    """Return whether an archive was made as a copy of another place."""
    return bool(archive.store.first(f"runs/{_run(archive)}/", 1))


def _begin(archive: Archive, target: ObjectStore) -> RunLog:
    if not _is_there(target, IDENTITY_KEY) and not target.probe_create_if_absent():
        raise RefusedError(
            f"{target.url} let several requests create the same object at once: a backup into the copy could overwrite "
            "another one's commit. Copy to a store with conditional writes (If-None-Match)."
        )
    target.begin(like=archive.store)
    log = RunLog(target, _run(archive), "copy", always=True)
    log.progress("copying files")
    if not target.first(f"runs/{_run(archive)}/", 1):
        raise StoreUnavailable(f"Could not note in {target.url} that a copy was begun there: try again.")
    return log


def _is_there(store: ObjectStore, key: str) -> bool:
    try:
        store.head(key)
    except ObjectNotFound:
        return False
    return True


def _files(state: State) -> Sequence[FileRecord]:
    load(state.blocks.values())
    files = (file for placed in state.blocks.values() for file in placed.block.files())
    return tuple({file.path: file for file in files}.values())


class _Copying:
    """Copy under way; its source may be refreshed between calls."""

    def __init__(
        self, archive: Archive, target: ObjectStore, *, deep: bool, on_progress: Callable[[CopyProgress], None]
    ) -> None:
        self._archive = archive
        self._source = archive.store
        self._target = target
        self._on_progress = on_progress
        self._copier = FileCopier(self._source, target, deep=deep, on_file=self._count)
        self._progress = CopyProgress(0, 0, 0, 0)

    def bring_files(self, seconds: float) -> bool:
        """Copy missing files for so many seconds; return whether all are there."""
        missing = self._copier.due(_files(self._archive.state))
        passed = self._progress
        self._progress = replace(
            passed, all_files=passed.files + len(missing), all_size=passed.size + sum(file.size for file in missing)
        )
        return self._copier.copy(missing, seconds=seconds)

    def _count(self, file: FileRecord) -> None:
        self._progress = replace(self._progress, files=self._progress.files + 1, size=self._progress.size + file.size)
        self._on_progress(self._progress)

    def check_files(self) -> None:
        """Check that all files are there: once the last one is, the first may be gone (DamagedError)."""
        sizes = file_sizes(self._target)
        for file in _files(self._archive.state):
            if sizes.get(file.path) != file.size:
                raise DamagedError(
                    f"{file.path} was in {self._target.url}, and is not there any more in its size: find out who "
                    "removes files there, then copy again"
                )

    def add_commits(self, since: int) -> None:
        """Add the commits behind `since`, then the archive's identity; DamagedError if they are no chain."""
        state = self._archive.state
        parent = self._archive.commit(since) if since else None
        order = in_order(self._archive.commits(since), state, parent)
        if _is_there(self._target, IDENTITY_KEY):
            for number in order:
                self._add_commit(number)
        else:  # whatever is there, it is no archive before the last step
            do_side_by_side(self._add_commit, order, at_once=AT_ONCE)
            claim(self._target, IDENTITY_KEY, self._source.read(IDENTITY_KEY).signed, signed=True)
        copied = Archive.open(self._target)
        if copied.state.tip != state.tip:
            raise RefusedError(f"somebody else has added to {self._target.url} meanwhile: see 'holdfast status'")
        if state.format >= CHECKPOINTS_SINCE:
            with suppress(StoreError):  # it spares reading, and nothing else
                write_checkpoint(self._target, copied.identity.id, copied.state)

    def _add_commit(self, number: int) -> None:
        key = commit_key(number)
        commit = self._source.read(key)
        parse_commit(key, commit.body)
        _same(self._archive, self._target, key, claim(self._target, key, commit.signed, signed=True))

    def result(self, since: int) -> Copied:
        state = self._archive.state
        return Copied(
            archive=self._archive.identity,
            commit=state.sequence,
            commits=len(state.numbers(since)),
            files=len(self._copier.copied),
            size=self._copier.copied_size,
            skipped=sum(file.path not in self._copier.copied for file in _files(state)),
            replaced=self._copier.replaced,
            left_out=state.cut_off,
        )


def in_order(commits: Iterable[ArchiveCommit], newest: State, parent: ArchiveCommit | None) -> list[int]:
    """Return commit numbers in the order a copy adds them.

    After each of them, the copy either lacks a number, or what it has names only files that are there: those of blocks
    that are in the newest state, or that the copy had before.

    :param parent: the commit before the first; None: there is none.
    :raises DamagedError: one of them does not follow the one before it.
    """
    order: list[int] = []
    waiting: list[int] = []
    without_files: set[str] = set()
    for commit in commits:
        if not (commit.follows(parent.id, parent.own_checksum) if parent else commit.follows(None)):
            raise DamagedError(
                f"{commit_key(commit.sequence)} does not follow the commit before it: one of both is not what was "
                "written. Restore the commits folder from another copy of the archive."
            )
        parent = commit
        waiting.append(commit.sequence)
        without_files.update(block.id for block in commit.add if block.id not in newest.blocks)
        without_files.difference_update(commit.remove)
        if not without_files:
            order += reversed(waiting)
            waiting = []
    return order + waiting[::-1]
