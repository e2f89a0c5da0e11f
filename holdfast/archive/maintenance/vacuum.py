"""Vacuum: deletion of files that the archive no longer needs.

No other operation deletes a data file, except that a repair or a copy replaces a damaged one. Three kinds of files go,
each when the grace is over: those of blocks that a commit has removed, those of blocks that were begun and never
committed, and those in a block's folder that its commit does not name. A commit comes first in each case: the one that
removed the block, or one of our own, made while no backup of the source can be at work. So a process that would still
commit such files meets the next number taken, looks at its locks and at the state, and stops.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.format.commits import COMMITS, commit_key, missing_commit, number_of
from holdfast.archive.format.document import iso
from holdfast.archive.format.state import Change
from holdfast.archive.maintenance.orphans import DATA, Leftovers, at_work, named_files, survey
from holdfast.common.errors import DamagedError, UsageError, sentence
from holdfast.storage import ObjectRetained
from locking import LockBusy, Owner, RWLock
from locking.store import StoreDenied

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from holdfast.archive.archive import Archive
    from holdfast.archive.format.block import Block
    from holdfast.archive.format.state import Removed, State
    from holdfast.storage import StoreError
    from locking import Lease

GRACE: Final = timedelta(hours=24)
"""How long files stay after the commit that removed their block, and what nobody knows after it was written."""

WAIT_S: Final = 60.0  # how long one batch of deletions waits for readers
BATCH_S: Final = 20.0
"""No deletion is begun later than this after readers were shut out: they are to be for 30 s at most."""

AT_ONCE: Final = 1000  # files between two looks at locks and state
_COMMITS_BEFORE: Final = 1000  # so many commits before one that removed a block are asked for their time
_PAUSE_S: Final = 2.0  # between two batches, so that readers who wait have their turn


@dataclass(frozen=True)
class Permission:
    """Permission to vacuum: its locks, which the caller holds and renews, and the needs of others."""

    check: Callable[[], None]
    fence: str | None
    permit: Permit


@dataclass(frozen=True)
class Refusal:
    """File that the store did not delete."""

    file: str
    reason: str
    until: datetime | None  # when an object lock on it ends; None for anything else
    retained: bool  # a lock or hold of the store's keeps it; else something is wrong


@dataclass
class Vacuumed:
    """Result of a vacuum or of a dry run."""

    dry_run: bool = False
    blocks: list[str] = field(default_factory=list)  # ids of removed blocks that are gone for good
    abandoned: list[str] = field(default_factory=list)  # ids of blocks that can never be committed now
    # files, size: how many files were deleted, and their bytes
    files: int = 0
    size: int = 0
    commits: list[int] = field(default_factory=list)  # numbers of the commits that were made
    waiting: dict[str, datetime] = field(default_factory=dict)
    """Removed blocks whose grace is not over, with the time when it is."""
    awaited: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Removed blocks that other replicas may still need, with the names of those that are waited for."""
    young: list[str] = field(default_factory=list)
    """Ids of unknown blocks that may still be at work, or come by the update log."""
    refused: list[Refusal] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)  # who kept us from deleting, or from a source's leftovers
    left: int = 0  # files that were to go and are left for the next run, but for those that were refused
    trouble: str = ""  # what the store said, where it kept us from going on
    unknown: list[str] = field(default_factory=list)  # keys under `data/` that no backup has written

    def describe(self) -> dict[str, Any]:
        return {
            "dry_run": self.dry_run,
            "blocks": self.blocks,
            "abandoned": self.abandoned,
            "files": self.files,
            "bytes": self.size,
            "commits": self.commits,
            "waiting": [{"block": block, "due": iso(due)} for block, due in self.waiting.items()],
            "awaited": [{"block": block, "replicas": list(names)} for block, names in self.awaited.items()],
            "young": self.young,
            "refused": [
                {
                    "file": each.file,
                    "reason": each.reason,
                    "retained": each.retained,
                    "until": iso(each.until) if each.until else None,
                }
                for each in self.refused
            ],
            "busy": self.busy,
            "left": self.left,
            "trouble": self.trouble,
            "unknown": self.unknown,
        }


def vacuum(
    archive: Archive,
    *,
    check: Callable[[], None],
    fence: str | None,
    grace: timedelta = GRACE,
    orphans: bool = True,
    dry_run: bool = False,
    wait: float = WAIT_S,
    owner: Owner | None = None,
    permit: Permit | None = None,
) -> Vacuumed:
    """Delete the files that are no longer needed, after their grace.

    Killed at any point it is simply run again. A deletion that fails is tried again by the next run.

    :param check, fence: of the locks of the plan "vacuum", which the caller holds; a dry run needs none.
    :param orphans: also look for files that no block names, which lists all data.
    :param wait: seconds that each batch of deletions waits for readers; then the rest is left for the next run.
    :param owner: of the locks that are taken for parts of the work.
    :param permit: of a replica: what the others need; None where the archive is at one place.
    :raises UsageError: the grace is less than nothing; or it is a replica, and there is no permit; or the archive needs
        a newer release to write.
    :raises LockLost: one of the caller's locks is lost.
    """
    if archive.state.log is not None and permit is None:
        raise UsageError(
            f"{archive.store.url} is replica {archive.state.log.replica} of a replicated archive: what may go of it "
            "is known by the coordination store. Say where that is: 'store' in archives.yaml, or HOLDFAST_STORE"
        )
    if grace < timedelta(0):
        raise UsageError("the grace cannot be less than 0: it is how long files stay after they were removed")
    permission = Permission(check, fence, permit or Permit())
    work = _Vacuum(archive, permission, grace, wait, owner or Owner(), Vacuumed(dry_run))
    if orphans:  # first, since what is in the folder of a removed block is told from other leftovers by its id
        work.delete_leftovers()
    if not work.done.left:
        work.delete_removed()
    return work.done


class _Vacuum:
    def __init__(
        self, archive: Archive, permission: Permission, grace: timedelta, wait: float, owner: Owner, done: Vacuumed
    ) -> None:
        self._archive = archive
        self._store = archive.store
        self._permission = permission
        self._grace = grace
        self._wait = wait
        self._owner = owner
        self.done = done
        self._read: dict[str, Block] = {}
        self._named: tuple[int, frozenset[str]] = (-1, frozenset())

    def delete_removed(self) -> None:
        """Delete the files of removed blocks, by at most as many requests as there are such blocks."""
        self._refresh()
        due = self._due()
        self.done.awaited.update(self._permission.permit.awaited(self._archive, due) if due else {})
        due = [each for each in due if each.id not in self.done.awaited]
        if not due:
            return
        needed = self._needed(due)
        files = {
            each.id: {file.path: file.size for file in self._block(each).files() if self._may_go(file.path, needed)}
            for each in due
        }
        stays = self._delete({path: size for some in files.values() for path, size in some.items()}, due)
        gone = [block for block, some in files.items() if stays.isdisjoint(some)]
        self.done.blocks += gone
        if gone and not self.done.dry_run:
            self._commit(lambda state: Change(kind="vacuum", vacuumed=tuple(id for id in gone if id in state.removed)))

    def delete_leftovers(self) -> None:
        self._refresh()
        by_source = survey(self._archive.state, self._needed(()), self._store.list(DATA), self._grace)
        going: dict[str, int] = {}
        for source, leftovers in by_source.items():
            self.done.unknown += leftovers.unknown
            self.done.young += leftovers.young
            if leftovers.files():
                going |= self._shown(leftovers) if self.done.dry_run else self._released(source)
        self._delete(going, ())

    def _refresh(self) -> None:
        """Read on, and check that this release may write: files are deleted before the commit that says so."""
        self._archive.refresh()
        self._archive.check_may_add()

    def _shown(self, leftovers: Leftovers) -> dict[str, int]:
        self._leave(leftovers, self._permission.permit.unnamed(leftovers.orphans.keys()))
        self.done.abandoned += leftovers.orphans
        return leftovers.files()

    def _released(self, source: str) -> dict[str, int]:
        """Return a source's orphan files that can no longer be committed.

        No backup of it is at work while we look, and a commit that was on its way comes before ours, or never.
        """
        try:
            lease = RWLock(self._store, f"ingest-{source}", owner=self._owner).write(purpose="vacuum", wait=0)
        except LockBusy as error:
            self.done.busy.append(sentence(error))
            return {}
        with lease:
            listing = self._store.list(f"{DATA}{source}/")
            self._archive.refresh()
            leftovers = survey(self._archive.state, self._needed(()), listing, self._grace).get(source, Leftovers())
            if leftovers.orphans:
                self._leave(leftovers, leftovers.orphans.keys() - at_work(self._store, self._grace))
                self._leave(leftovers, self._permission.permit.abandon(leftovers.orphans.keys()))
            if leftovers.orphans or leftovers.strays:
                self._commit(lambda state: _abandonment(state, leftovers), lease)
        for block in leftovers.orphans.keys() - self._archive.state.abandoned:
            del leftovers.orphans[block]
        self.done.abandoned += leftovers.orphans
        return leftovers.files()

    def _leave(self, leftovers: Leftovers, but_for: Collection[str]) -> None:
        """Spare the blocks, all but `but_for`, that may still be committed."""
        for block in leftovers.orphans.keys() - but_for:
            self.done.young.append(block)
            del leftovers.orphans[block]

    def _due(self) -> list[Removed]:
        """Return the removed blocks past their grace, by the store's clock alone."""
        now = self._store.list(IDENTITY_KEY).now
        removed = self._archive.state.removed.values()
        # The commit says when it was begun; a writer may have been asleep before it was made.
        made = self._made({each.removed for each in removed if each.at + self._grace <= now}, now)
        due = []
        for each in removed:
            over = max(each.at, made.get(each.removed, each.at)) + self._grace
            if over <= now:
                due.append(each)
            else:
                self.done.waiting[each.id] = over
        return due

    def _made(self, numbers: Collection[int], now: datetime) -> dict[int, datetime]:
        """Return the earliest times that commits can have been made.

        No commit is older than one before it. What the store says of a commit alone may be long before that: its clock
        had been set back, and was set right since. Times that are still to come say nothing of others: they are by a
        clock that ran ahead.
        """
        made: dict[int, datetime] = {}
        if not numbers:
            return made
        first = max(min(numbers) - _COMMITS_BEFORE, 1)
        listing = self._store.list(COMMITS, start_after=commit_key(first - 1))
        times = {info.key: info.modified for info in listing.objects}
        latest = datetime.min.replace(tzinfo=UTC)
        listed = {number for number in map(number_of, times) if number is not None and number <= max(numbers)}
        for number in sorted(listed.union(numbers)):  # never counted through: a forged name could have any number
            at = times.get(commit_key(number))
            if number in numbers:
                if at is None:
                    raise missing_commit(number)
                made[number] = max(at, latest)
            if at is not None and at <= now:
                latest = max(latest, at)
        return made

    def _block(self, removed: Removed) -> Block:
        if removed.id not in self._read:
            for block in self._archive.commit(removed.added).add:
                self._read[block.id] = block
        if removed.id not in self._read:
            key = commit_key(removed.added)
            raise DamagedError(f"{key} does not add block {removed.id}: it is not what was written")
        return self._read[removed.id]

    def _needed(self, due: Iterable[Removed]) -> frozenset[str]:
        """Return the files that stay, by the state last read, and those of removed blocks not yet due."""
        state, going = self._archive.state, {each.id for each in due}
        staying = [self._block(each) for each in state.removed.values() if each.id not in going]
        sequence, named = self._named
        if sequence != state.sequence:
            named = named_files(state)
            self._named = state.sequence, named
        return named.union(file.path for block in staying for file in block.files())

    def _may_go(self, path: str, needed: frozenset[str]) -> bool:
        """Return whether a removed block's file may go; in the folder of a block that is here it is a leftover."""
        at_home = any(part in self._archive.state.blocks for part in path.split("/"))
        return path.startswith(DATA) and path not in needed and not at_home

    def _delete(self, files: Mapping[str, int], due: Sequence[Removed]) -> set[str]:
        """Delete files of removed blocks in batches, without readers; return those that are still there."""
        stays: set[str] = set()
        if self.done.dry_run:
            self.done.files += len(files)
            self.done.size += sum(files.values())
            return stays
        waiting = list(files)
        while waiting and not self.done.trouble:
            try:
                lease = RWLock(self._store, "history", owner=self._owner).write(
                    purpose="vacuum", wait=self._wait, renew=False
                )
            except LockBusy as error:
                self.done.busy.append(sentence(error))
                break
            until = time.monotonic() + BATCH_S
            with lease:
                stays |= self._delete_until(until, waiting, files, due, lease)
            if waiting and not self.done.trouble:
                time.sleep(_PAUSE_S)
        self.done.left += len(waiting)
        return stays.union(waiting)

    def _delete_until(
        self, until: float, waiting: list[str], files: Mapping[str, int], due: Sequence[Removed], lease: Lease
    ) -> set[str]:
        """Delete waiting files while there is time, some in any case; return those that are still there."""
        stays: set[str] = set()
        while True:
            some = waiting[:AT_ONCE]
            stays |= self._delete_some(some, files, due, lease)
            del waiting[:AT_ONCE]
            if not waiting or self.done.trouble or time.monotonic() >= until:
                return stays

    def _delete_some(
        self, some: Sequence[str], files: Mapping[str, int], due: Sequence[Removed], lease: Lease
    ) -> set[str]:
        self._archive.refresh()
        needed = self._needed(due)
        self._permission.check()
        lease.check()
        going = [path for path in some if path not in needed]
        errors = self._store.delete_many(going)
        gone = [path for path in going if path not in errors]
        self.done.files += len(gone)
        self.done.size += sum(files[path] for path in gone)
        for path, error in errors.items():
            self._note(path, error)
        return {path for path in some if path in errors}

    def _note(self, path: str, error: StoreError) -> None:
        """Record a file that was not deleted; where the store seems to be out of order, the run stops."""
        retained = isinstance(error, ObjectRetained)
        if retained or isinstance(error, StoreDenied):
            until = error.until if isinstance(error, ObjectRetained) else None
            self.done.refused.append(Refusal(path, sentence(error), until, retained))
        else:
            self.done.left += 1
            self.done.trouble = self.done.trouble or sentence(error)

    def _commit(self, plan: Callable[[State], Change], lease: Lease | None = None) -> None:
        def check() -> None:
            self._permission.check()
            if lease is not None:
                lease.check()

        self.done.commits.append(self._archive.add(plan, check=check, fence=self._permission.fence).sequence)


def _abandonment(state: State, leftovers: Leftovers) -> Change:
    ids = state.blocks.keys() | state.removed.keys() | state.abandoned
    return Change(kind="vacuum", abandoned=tuple(sorted(leftovers.orphans.keys() - ids)))


class Permit:
    """Permit of an archive at one location, from which no other takes files: everything may go."""

    def awaited(self, archive: Archive, removed: Sequence[Removed]) -> Mapping[str, tuple[str, ...]]:
        """Return the removed blocks that must keep their files, with the replicas that are waited for."""
        return {}

    def abandon(self, blocks: Collection[str]) -> Collection[str]:
        """Prevent unknown blocks from ever being added; return those for which that is certain."""
        return blocks

    def unnamed(self, blocks: Collection[str]) -> Collection[str]:
        """Return those that `abandon` would, and change nothing."""
        return blocks
