"""Verification: every file that commits name exists as written.

Files are looked at in chunks, each under the lock `history`, and the archive is opened again for each: what was removed
meanwhile is left out, and a vacuum that waits comes in between.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.files.file_index import content_problem, files_of, size_problem, wrong_size
from holdfast.archive.format.block_ref import load
from holdfast.archive.format.checkpoint import OURS
from holdfast.archive.format.commits import COMMITS, commit_key, number_of
from holdfast.archive.format.document import iso
from holdfast.archive.format.runs import listed_runs, newest_records
from holdfast.archive.maintenance.commit_chain import broken_commits, commits_behind
from holdfast.archive.maintenance.damage_report import DamageReport
from holdfast.archive.maintenance.scrub_schedule import Scrub, ScrubProgress, read_progress, write_progress
from holdfast.common.cleanup import clean_up
from holdfast.common.errors import DamagedError
from holdfast.common.side_by_side import do_side_by_side
from locking.store import ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from holdfast.archive.archive import Archive
    from holdfast.archive.files.file_index import NamedFile, Problem
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.document import FileRecord
    from holdfast.archive.maintenance.damage_report import LostRange
    from holdfast.storage import ObjectStore
    from holdfast.storage.contract.object_store import Extended

    ReadAll = Callable[[Sequence[NamedFile]], Iterable[Problem | None]]
    """Reads files and returns what is wrong with each, in their order; None where nothing is."""

_READERS: Final = max(4, min(8, 2 * (os.cpu_count() or 2)))
"""More than cores: while one hashes, another one waits for the disk."""

_DECODING: Final = _READERS // 2  # whoever decodes a file has it in memory as a whole
_ASKING: Final = 16
REMEMBERED_EVERY_S: Final = 60.0  # seconds between two records of what a verification has read
BACKUP: Final = "the backup"  # what a commit holds
THE_ARCHIVE: Final = "the archive"  # stands for the source of a commit of which nobody knows what it holds


@dataclass(frozen=True)
class Damage:
    """Damaged object, and the recovery targets it costs."""

    what: str  # the file, and what is wrong with it
    # `schema.table`, of a pack the first one and how many more, "schema" for the files that describe the schema,
    # "transactions" for those with their times, "the backup" for a commit
    table: str
    source: str  # "" of a commit that holds no backup
    commit: int
    path: str = ""
    costs: tuple[LostRange, ...] = ()  # what cannot be restored whole without it
    # It is a file of a block, and missing or not what was written: a copy or another replica may have it. Commits only
    # a copy has, and what was written so is the same at every place.
    replaceable: bool = False

    def __str__(self) -> str:
        holds = f"it holds {self.table} of {self.source}, restore point commit:{self.commit}"
        if not self.commit:
            holds = "it is no commit"
        elif self.source in ("", THE_ARCHIVE):
            what = "and nobody knows what it holds" if self.source else "which holds no backup"
            holds = f"it is commit {self.commit}, {what}"
        said = f"{self.what}; {holds}"
        return f"{said}; needed for {', '.join(map(str, self.costs))}" if self.costs else said

    def describe(self) -> dict[str, Any]:
        return {
            "file": self.path,
            "table": self.table,
            "source": self.source,
            "commit": self.commit,
            "replaceable": self.replaceable,
            "needed_for": [cost.describe() for cost in self.costs],
        }


@dataclass(frozen=True)
class Verification:
    """Result of a verification."""

    commits: int  # how many the archive has, `blocks` likewise; `files` that were looked at, of `size` bytes
    blocks: int
    files: int
    size: int
    deep: bool
    damage: tuple[Damage, ...]
    since: datetime | None = None
    """Every file of the archive was read after it, or made after it; None where not all is known."""
    locks: Extended | None = None
    """Result for object locks; None if the store has none, or nothing was to be written."""

    def describe(self) -> dict[str, Any]:
        return {
            "commits": self.commits,
            "blocks": self.blocks,
            "files": self.files,
            "bytes": self.size,
            "deep": self.deep,
            "damage": [str(each) for each in self.damage],
            "costs": [each.describe() for each in self.damage],
            "read_since": iso(self.since) if self.since else None,
            "object_locks": _described(self.locks) if self.locks else None,
        }


@dataclass(frozen=True)
class Scope:
    """Scope of a verification."""

    deep: bool = False  # read files, those first that were not read for longest; else compare sizes with listings
    new: bool = False  # only commits that were not verified yet, and the files that they brought
    budget: int | timedelta | None = None  # bytes to read, or for how long to read, at most
    within: timedelta | None = None
    """Read as much as is needed to have read all in this time, if that is done again and again."""

    def arguments(self) -> list[str]:
        arguments = [*(["--deep"] if self.deep else []), *(["--new"] if self.new else [])]
        if self.budget is not None:
            bounds = f"{self.budget.total_seconds()}s" if isinstance(self.budget, timedelta) else f"{self.budget}B"
            arguments += ["--budget", bounds]
        if self.within is not None:
            arguments += ["--within", f"{self.within.total_seconds()}s"]
        return arguments

    @property
    def is_part(self) -> bool:
        """Return whether only a part of the files is read, and the next time goes on behind it."""
        return self.budget is not None or self.within is not None


def verify(
    archive: Archive, *, deep: bool = False, on_file: Callable[[FileRecord], None] = lambda record: None
) -> Verification:
    """Verify a whole opened archive, and store no progress.

    That the newest commits are missing shows in no chain, but in the records of the runs that made them.

    :param deep: read every file: checksum, Parquet pages and row count; else compare sizes with one listing.
    """
    return Verifier(archive, Scope(deep=deep), on_file=on_file).run(ScrubProgress())


def verify_and_remember(
    archive: Archive,
    scope: Scope,
    *,
    reading: Callable[[], AbstractContextManager[object]] = nullcontext,
    read_all: ReadAll | None = None,
    check: Callable[[], None] = lambda: None,
    on_file: Callable[[FileRecord], None] = lambda record: None,
    remember: bool = True,
) -> Verification:
    """Verify an archive or a part of it from where earlier ones ended, and store the progress.

    :param reading: keeps files from being deleted while a chunk of them is looked at.
    :param read_all: reads files; the default does so in threads of this process.
    :param check: raises if this work must not go on.
    :param remember: store the progress; else nothing is written.
    """
    verifier = Verifier(archive, scope, reading=reading, read_all=read_all, check=check, on_file=on_file)
    report = verifier.run(read_progress(archive.store), remember=remember)
    return replace(report, locks=extend_locks(archive)) if remember else report


def _described(locks: Extended) -> dict[str, Any]:
    failed = {key: str(error) for key, error in locks.failed.items()}
    return {"looked_at": locks.looked_at, "extended": locks.extended, "failed": failed}


class Verifier:
    """One verification; parameters as those of `verify_and_remember`."""

    def __init__(
        self,
        archive: Archive,
        scope: Scope,
        *,
        reading: Callable[[], AbstractContextManager[object]] = nullcontext,
        read_all: ReadAll | None = None,
        check: Callable[[], None] = lambda: None,
        on_file: Callable[[FileRecord], None] = lambda record: None,
    ) -> None:
        self._archive = archive
        self._store: ObjectStore = archive.store
        self._scope = scope
        self._reading = reading
        self._read_all = read_all or self._read_here
        self._check = check
        self._on_file = on_file
        self._files = 0
        self._size = 0
        self._broken: dict[int, str] = {}
        self._damaged: dict[str, tuple[NamedFile, Problem]] = {}

    def run(self, progress: ScrubProgress, *, remember: bool = False) -> Verification:
        """Run the verification after earlier `progress`; `remember`: write down what is verified now."""
        scope, since = self._scope, None
        part = scope.new or scope.is_part
        with self._reading():
            self._archive.refresh()
            state = self._archive.state
            after = self._chain(progress if part else ScrubProgress())
            if not scope.deep or part:
                self._look_at_files(progress.seen if part else 0)
        if not self._damaged and not self._broken:
            after = after.model_copy(update={"seen": state.sequence})
        progress = progress.model_copy(update={name: getattr(after, name) for name in ("chain", "tip", "seen")})
        if scope.deep:
            progress, since = self._read_files(progress, remember=remember)
        if self._damaged:  # whoever holds no lock may have looked for what was removed meanwhile
            self._archive.refresh()
        damage = (*self._behind(), *_lost_commits(self._archive), *self._told())
        if remember:
            objects = (("" if each.source == THE_ARCHIVE else each.source, each.path) for each in damage)
            write_progress(self._store, progress.with_broken(objects))
        return Verification(
            commits=self._archive.state.sequence,
            blocks=len(self._archive.state.blocks),
            files=self._files + sum(each.table == BACKUP for each in damage),
            size=self._size,
            deep=scope.deep,
            damage=damage,
            since=since,
        )

    def _chain(self, progress: ScrubProgress) -> ScrubProgress:
        """Verify the commits not verified before; return the progress up to the last, if none is broken."""
        state = self._archive.state
        self._broken.update(broken_commits(self._archive, since=progress.chain, tip=progress.tip))
        if self._broken:
            return progress
        return progress.model_copy(update={"chain": state.sequence, "tip": state.tip})

    def _look_at_files(self, seen: int) -> None:
        """Compare the sizes of files of blocks added after a commit, of all blocks by one listing."""
        blocks = [placed for placed in self._archive.state.blocks.values() if placed.commit > seen]
        files = {file.path: file for some in self._named(blocks) for file in some}
        if seen:
            problems = do_side_by_side(
                lambda file: size_problem(self._store, file.record), files.values(), at_once=_ASKING
            )
            by_file = dict(zip(files, problems, strict=True))
        else:
            sizes = {each.key: each.size for each in self._store.list("data/").objects}
            by_file = {path: wrong_size(file.record, sizes.get(path)) for path, file in files.items()}
        for path, file in files.items():
            if not self._scope.deep:
                self._count(file)
            if (problem := by_file[path]) is not None:
                self._damaged[path] = (file, problem)

    def _named(self, blocks: Sequence[Placed]) -> Iterator[list[NamedFile]]:
        for placed, files in zip(blocks, do_side_by_side(_outcome, blocks, at_once=_ASKING), strict=True):
            if isinstance(files, DamagedError):
                self._broken.setdefault(placed.commit, str(files))
            else:
                yield files

    def _count(self, file: NamedFile) -> None:
        self._files += 1
        self._size += file.record.size
        self._on_file(file.record)

    def _read_files(self, progress: ScrubProgress, *, remember: bool) -> tuple[ScrubProgress, datetime | None]:
        """Read files in chunks, until all are read or the budget is spent."""
        now = self._store.list(IDENTITY_KEY).now
        scrub = Scrub(self._archive.state, progress, now, anew=not self._scope.is_part)
        chunks = Chunks(scrub.files(), *self._bounds(scrub))
        remembered = time.monotonic()
        try:
            for chunk in chunks:
                self._check()
                bad = self._read_chunk(chunk)
                scrub.account(chunk, [file for file, _ in bad])
                self._damaged.update((file.path, (file, problem)) for file, problem in bad)
                if remember and time.monotonic() - remembered > REMEMBERED_EVERY_S:
                    write_progress(self._store, scrub.progress(progress, self._archive.state))
                    remembered = time.monotonic()
        except Exception as error:
            if remember:
                clean_up(error, lambda: write_progress(self._store, scrub.progress(progress, self._archive.state)))
            raise
        scrub.account(())
        for commit, said in scrub.untold.items():
            self._broken.setdefault(commit, said)
        if scrub.untold:  # the next part looks at all commits again, and so finds these again
            progress = progress.model_copy(update={"chain": 0, "tip": None, "seen": 0})
        return scrub.progress(progress, self._archive.state), scrub.oldest(self._archive.state)

    def _bounds(self, scrub: Scrub) -> tuple[float, float]:
        size, seconds = float("inf"), float("inf")
        if isinstance(self._scope.budget, timedelta):
            seconds = self._scope.budget.total_seconds()
        elif self._scope.budget is not None:
            size = self._scope.budget
        if self._scope.within is not None:
            size = min(size, scrub.share(self._scope.within))
        return size, seconds

    def _read_chunk(self, chunk: Sequence[NamedFile]) -> list[tuple[NamedFile, Problem]]:
        with self._reading():
            self._archive.refresh()
            wanted = [file for file in chunk if file.block in self._archive.state.blocks]
            damaged = [(file, bad) for file, bad in zip(wanted, self._read_all(wanted), strict=True) if bad is not None]
        for file in wanted:
            self._count(file)
        if damaged:  # whoever was held up for longer than its lock lasts may have read what was removed meanwhile
            self._archive.refresh()
        return [(file, bad) for file, bad in damaged if file.block in self._archive.state.blocks]

    def _read_here(self, files: Sequence[NamedFile]) -> Iterable[Problem | None]:
        decoding = threading.Semaphore(_DECODING)

        def read(file: NamedFile) -> Problem | None:
            with nullcontext() if file.is_decoded else decoding:
                return content_problem(self._store, file)

        return do_side_by_side(read, files, at_once=_READERS)

    def _behind(self) -> Iterator[Damage]:
        """Yield the damage that cuts off the state; each costs all that was backed up behind the first."""
        state = self._archive.state
        if not state.cut_off:
            return
        whole, bad = commits_behind(self._archive)
        costs = DamageReport(state).behind(whole)
        for key, said in bad.items():
            yield Damage(said, BACKUP, THE_ARCHIVE, number_of(key) or 0, key, costs)

    def _told(self) -> Iterator[Damage]:
        state = self._archive.state
        costs = DamageReport(state)
        for commit, said in sorted(self._broken.items()):
            sources = {placed.source for placed in state.blocks.values() if placed.commit == commit}
            for source in sorted(sources) or [""]:
                yield Damage(said, BACKUP, source, commit, commit_key(commit), costs.of_commit(source, commit))
        for file, problem in self._damaged.values():
            if file.block in state.blocks:
                yield Damage(
                    problem.said,
                    file.holds,
                    file.source,
                    file.commit,
                    file.path,
                    costs.of(file),
                    replaceable=not problem.is_as_written,
                )


def _outcome(placed: Placed) -> list[NamedFile] | DamagedError:
    try:
        return files_of(placed)
    except DamagedError as error:
        return error


def _lost_commits(archive: Archive) -> Iterator[Damage]:
    """Yield the missing commits, behind the newest, that a run recorded as made.

    Of a replica, runs name other numbers than its own commits', and its log says how far it is to be.
    """
    if archive.state.log is not None:
        return
    since = archive.state.at
    behind = archive.state.sequence + bool(archive.state.cut_off)
    runs = [run for run in listed_runs(archive.store) if since is None or run.infos[-1].modified >= since]
    for record, _ in newest_records(runs):
        result = record.result or {}
        number = result.get("commit")
        if isinstance(number, int) and number > behind and not _is_there(archive, commit_key(number)):
            what = f"{commit_key(number)} is missing, which run {record.run} says was made: put it back from a copy"
            yield Damage(what, BACKUP, str(result.get("source") or ""), number, commit_key(number))


def _is_there(archive: Archive, key: str) -> bool:
    try:
        archive.store.head(key)
    except ObjectNotFound:
        return False
    return True


CHUNK_S: Final = 20.0  # seconds that a chunk is to take
FIRST_BYTES: Final = 256 << 20
SMALLEST_BYTES: Final = 32 << 20
LARGEST_BYTES: Final = 64 << 30  # bytes of a chunk
_LEAST_WEIGHT: Final = 1 << 20  # bytes that the smallest file counts for: it takes a request as any other does
_FASTER: Final = 4.0  # a chunk is larger than the one before by this factor, at most


class Chunks:
    """Files in chunks of about twenty seconds each, until so many bytes or seconds are spent."""

    def __init__(self, files: Iterator[NamedFile], size: float, seconds: float) -> None:
        self._files = files
        self._left = size
        self._deadline = time.monotonic() + seconds
        self._room = float(FIRST_BYTES)

    def __iter__(self) -> Iterator[list[NamedFile]]:
        while True:
            begun = time.monotonic()
            chunk = self._next(begun)
            if not chunk:
                return
            yield chunk
            took = max(time.monotonic() - begun, 0.01)
            self._room = min(max(self._room * min(CHUNK_S / took, _FASTER), SMALLEST_BYTES), LARGEST_BYTES)

    def _next(self, now: float) -> list[NamedFile]:
        chunk: list[NamedFile] = []
        room = self._room
        while room > 0 and self._left > 0 and now < self._deadline:
            file = next(self._files, None)
            if file is None:
                break
            chunk.append(file)
            self._left -= file.record.size
            room -= max(file.record.size, _LEAST_WEIGHT)
        return chunk


def extend_locks(archive: Archive) -> Extended | None:
    """Extend the object locks of commits, keys and files that the archive needs; None: there are to be none."""
    store = archive.store
    if not store.locks_objects:
        return None
    blocks = list(archive.state.blocks.values())
    load(blocks)
    named = {file.key for placed in blocks for file in placed.block.files()}
    listed = ["archive.json", *(each.key for prefix in ("keys/", COMMITS) for each in store.list(prefix).objects)]
    newest = [each.key for each in store.first(OURS, 1)]
    return store.extend_locks([*listed, *newest, *sorted(named)])
