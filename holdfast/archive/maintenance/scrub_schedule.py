"""Schedule for reading all files again over days, those first that were not read for longest.

What was read is remembered in the archive, in `runs/verification/`, so that any machine goes on from there. Nothing
depends on it: without it, all is read from the beginning.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field, ValidationError

from holdfast.archive.files.file_index import files_of
from holdfast.archive.format.block_ref import load
from holdfast.archive.format.document import Document, Moment, iso
from holdfast.archive.format.runs import AHEAD, RunRecord, listed_runs, newest_records, record_key
from holdfast.common.errors import DamagedError
from locking.one_line import line_logger
from locking.store import ObjectExists, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.archive.files.file_index import NamedFile
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.state import State
    from holdfast.storage import ObjectStore

log = line_logger(__name__)

RUN: Final = "verification"
READER: Final = f"pyarrow {version('pyarrow')}"
"""What decodes files: of another version, it is not known whether it can."""

_KEPT: Final = 2
_AHEAD: Final = 32  # blocks whose commits are read together, before the files of the first are handed out
_FIRST_RUN_OF: Final = 30  # the first run reads this part of what there is: as if the last one had been so long ago


class Pass(Document):
    """Block that is being read, whose files up to `path` were read after `since`."""

    since: Moment
    path: str


class ScrubProgress(Document):
    """Progress of verification so far."""

    chain: int = 0  # up to this commit all were read and follow each other; `tip` is its id
    tip: str | None = None
    seen: int = 0  # the files of blocks that were added up to this commit were there, with the right size
    at: Moment | None = None  # when files were read last, by the store's clock
    read: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Since when each block was read whole; by that time, so that it is written once for many."""
    under_way: dict[str, Pass] = Field(default_factory=dict)  # blocks that are being read
    decoded: tuple[str, ...] = ()  # blocks whose files' pages and rows were read, too, by this version of `reader`
    reader: str = ""
    damaged: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Paths that were not as they were written, by the block that names them: they are read each time."""
    # Objects that the newest verification found missing or damaged without reading files, by source; those of "" are
    # the archive's own
    broken: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    def with_broken(self, objects: Iterable[tuple[str, str]]) -> ScrubProgress:
        """Return this with the damaged objects of a verification, by source, but those that were read."""
        read = {path for paths in self.damaged.values() for path in paths}
        broken: dict[str, tuple[str, ...]] = {}
        for source, path in objects:
            if path not in read:
                broken[source] = (*broken.get(source, ()), path)
        return self.model_copy(update={"broken": broken})

    def is_after(self, time: datetime) -> bool:
        times = (self.at, *map(datetime.fromisoformat, self.read), *(each.since for each in self.under_way.values()))
        return any(each is not None and each > time for each in times)


def read_progress(store: ObjectStore) -> ScrubProgress:
    """Return the progress of verification so far, empty if unreadable or of a time still to come."""
    for run in listed_runs(store, f"{RUN}/"):
        with suppress(ValidationError):
            for record, at in newest_records([run]):
                progress = ScrubProgress.model_validate(record.result or {})
                if not progress.is_after(at + AHEAD):
                    return progress
                log.warning("The account of verification tells of a time that is still to come, and counts for nothing")
    return ScrubProgress()


def write_progress(store: ObjectStore, progress: ScrubProgress) -> None:
    """Store the progress, where it would be believed, and remove older ones; a failure costs some reading."""
    if store.signing.only_checks:
        return
    result: dict[str, Any] = progress.model_dump(mode="json")
    with suppress(StoreError):
        run = next(iter(listed_runs(store, f"{RUN}/")), None)
        number = run.next_number if run else 0
        record = RunRecord(
            run=RUN,
            number=number,
            operation=RUN,
            state="succeeded",
            step="verified so far",
            at=progress.at,
            result=result,
        )
        with suppress(ObjectExists):  # another verification has ended at the same moment
            store.create(record_key(RUN, number), record.to_bytes())
        for old in run.infos[: 1 - _KEPT] if run else ():
            store.delete(old.key)


def checked_since(state: State, progress: ScrubProgress, source: str) -> datetime | None:
    """Return the oldest time at which a block of a source was read whole, or made; None where it has no block."""
    read = {block: datetime.fromisoformat(when) for when, blocks in progress.read.items() for block in blocks}
    mine = [placed for placed in state.blocks.values() if placed.source == source]
    made = {placed.id: placed.head.covers.to_time for placed in mine}
    return min((max(at, read.get(block, at)) for block, at in made.items()), default=None)


def damaged_files(state: State, progress: ScrubProgress, source: str) -> list[str]:
    mine = {placed.id for placed in state.blocks.values() if placed.source == source}
    read = {path for block, paths in progress.damaged.items() if block in mine for path in paths}
    return sorted({*read, *progress.broken.get(source, ()), *progress.broken.get("", ())})


class Scrub:
    """Files to read, those first that were not read for longest, with an account of those that were.

    :param now: by the store's clock.
    :param anew: read each block from its first file on; else what is under way goes on.
    """

    def __init__(self, state: State, progress: ScrubProgress, now: datetime, *, anew: bool) -> None:
        self._state = state
        self._now = now
        self._at = progress.at
        self._read = {block: datetime.fromisoformat(when) for when, blocks in progress.read.items() for block in blocks}
        self._under_way = {} if anew else dict(progress.under_way)
        # What another version has decoded, this one decodes again: a part of a block counts as nothing.
        same = progress.reader == READER
        self._decoded = set(progress.decoded) if same else set()
        self._skips = self._decoded if not anew else frozenset()
        self._undecoded = frozenset() if same else frozenset(self._under_way)
        self._damaged = {block: set(paths) for block, paths in progress.damaged.items() if block in state.blocks}
        self._again = frozenset(path for paths in self._damaged.values() for path in paths)
        self._passed: list[str] = []
        self.untold: dict[int, str] = {}
        """Commits that do not tell the files of their blocks any more, each with the reason."""

    def share(self, within: timedelta) -> int:
        """Return the bytes to read now, at least 1, so that all is read within this time by repeating it."""
        total = sum(placed.size for placed in self._state.blocks.values())
        since = self._now - self._at if self._at else within / _FIRST_RUN_OF
        return max(1, int(total * min(1.0, since / within))) if within else total

    def files(self) -> Iterator[NamedFile]:
        """Yield every file once, the damaged ones first, then by the time when their blocks were read."""
        order = sorted(self._state.blocks.values(), key=lambda placed: (self._since(placed), placed.commit))
        seen = set(self._again)
        for placed in order:
            if placed.id in self._damaged:
                yield from (file for file in self._files(placed) if file.path in self._again)
        for number, placed in enumerate(order):
            if number % _AHEAD == 0:
                with suppress(DamagedError):  # it is told when the block's turn comes
                    load(order[number : number + _AHEAD])
            begun = self._under_way.get(placed.id)
            rest = [
                file
                for file in self._files(placed)
                if file.path not in seen and (begun is None or file.path > begun.path)
            ]
            seen.update(file.path for file in rest)
            yield from rest[:-1]
            self._passed.append(placed.id)  # once its last file is read, which it is before the next account
            yield from rest[-1:]

    def _files(self, placed: Placed) -> list[NamedFile]:
        try:
            is_decoded = placed.id in self._skips
            return [replace(file, is_decoded=is_decoded and file.path not in self._again) for file in files_of(placed)]
        except DamagedError as error:
            self.untold[placed.commit] = str(error)
            return []

    def _since(self, placed: Placed) -> datetime:
        """Return when a block's files were last right: read, or made."""
        made = placed.head.covers.to_time
        return max(made, self._read.get(placed.id, made))

    def account(self, files: Iterable[NamedFile], damaged: Iterable[NamedFile] = ()) -> None:
        """Record the files that were read, in the order of `files`, and the damaged ones."""
        for file in files:
            self._damaged.get(file.block, set()).discard(file.path)
            if file.path not in self._again:
                begun = self._under_way.get(file.block)
                since = begun.since if begun else self._now
                self._under_way[file.block] = Pass(since=since, path=file.path)
        for block in self._passed:
            done = self._under_way.pop(block, None)
            self._read[block] = done.since if done else self._now
            if block not in self._undecoded:
                self._decoded.add(block)
        self._passed.clear()
        for file in damaged:
            self._damaged.setdefault(file.block, set()).add(file.path)

    def oldest(self, state: State) -> datetime | None:
        """Return the oldest of the times when blocks were last checked; None without blocks."""
        return min(map(self._since, state.blocks.values()), default=None)

    def progress(self, before: ScrubProgress, state: State) -> ScrubProgress:
        read: dict[str, list[str]] = {}
        for block, when in self._read.items():
            if block in state.blocks:
                read.setdefault(iso(when), []).append(block)
        return before.model_copy(
            update={
                "at": self._now,
                "read": {when: tuple(blocks) for when, blocks in read.items()},
                "decoded": tuple(sorted(block for block in self._decoded if block in state.blocks)),
                "reader": READER,
                "under_way": {block: begun for block, begun in self._under_way.items() if block in state.blocks},
                "damaged": {block: tuple(sorted(paths)) for block, paths in self._damaged.items() if paths},
            }
        )
