"""Recovery of a lost replica from another one. Only files that are missing or damaged are copied.

The order is what makes it safe. The replica gets a new epoch while it is still lost, and says in its own archive that
it must not be read. What it is to have comes from *one* commit of the other one, whose pointer was taken before and
keeps the log from being trimmed. It is no longer lost only after all is there, if no other process took over.
"""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.archive import locks
from holdfast.archive.archive import IDENTITY_KEY, Archive
from holdfast.archive.files.transfer import CHUNK_S, FileCopier
from holdfast.archive.format.block_ref import load
from holdfast.archive.format.model import Adopted
from holdfast.archive.format.state import Change
from holdfast.common.errors import DamagedError, HoldfastError, UsageError, sentence
from holdfast.common.side_by_side import ask_side_by_side
from holdfast.replication.log import recovery_claim
from holdfast.replication.log.consistency_check import (
    LIMIT_S,
    archive_place,
    check_line,
    look_at,
    open_replica,
    run_agreed,
    silent_among,
)
from holdfast.replication.log.errors import EpochOverError, SilentReplicaError
from holdfast.replication.log.replicas import LEASE_S, Acting, mark_lost, replicas, why_lost
from holdfast.replication.work.turn import in_turn
from holdfast.storage import open_store
from locking import LockError, Owner
from locking.one_line import line_logger
from locking.store import ObjectNotFound, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Set

    from sqlalchemy import Connection

    from holdfast.archive.format.block import Block
    from holdfast.archive.format.model import LogPlace
    from holdfast.archive.format.state import State
    from holdfast.replication.log.consistency_check import Answers
    from holdfast.replication.log.replicas import ReplicaRow
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.storage import ObjectStore

logger = line_logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class Recovered:
    """Result of a recovery; `kept` files were there, the blocks `aside` only this replica had."""

    replica: str
    source: str
    index: int
    files: int
    size: int
    kept: int
    aside: tuple[str, ...]

    def describe(self) -> dict[str, Any]:
        """Return the recovery as JSON."""
        return {
            "replica": self.replica,
            "from": self.source,
            "index": self.index,
            "files": self.files,
            "bytes": self.size,
            "kept": self.kept,
            "aside": list(self.aside),
        }


def recover(
    coordination: CoordinationStore,
    archive: str,
    name: str,
    *,
    source: str | None = None,
    deep: bool = True,
    wait: float = 0.0,
    lease: float = LEASE_S,
    places: Callable[[str], ObjectStore] = open_store,
) -> Recovered:
    """Recover a lost replica from another one; run again after a kill, it goes on with the files that are there.

    :param source: the replica to copy from; None: the one that has executed most.
    :param deep: read what is there, too, and replace what is damaged; else sizes are compared.
    :raises UsageError: something else than this replica is at its place.
    :raises SilentReplicaError: its place, or that of the source, does not answer in time.
    :raises OldStoreError: a replica has executed an entry that the coordination store does not have.
    :raises DamagedError: it is not new and not at its place; or the source lacks what it names: it stays lost.
    """
    until = time.monotonic() + wait

    def agreed(claim: Callable[[Connection], tuple[T, ReplicaRow]]) -> tuple[T, ReplicaRow]:
        def take() -> tuple[T, ReplicaRow]:
            return run_agreed(coordination, archive, lambda c, answers: claim(c), places, but_for=name)

        remaining = max(0.0, until - time.monotonic())
        return in_turn(take, wait=remaining, say=lambda words: logger.warning("%s", words))

    # Before the target is locked: a refusal neither waits for its place nor leaves anything there.
    row, _ = agreed(lambda c: recovery_claim.choose(c, archive, name, source=source))
    target = archive_place(coordination, archive, row, places)
    with locks.acquire(target, "recovery", owner=Owner(), purpose=f"recovery of {name}", wait=wait) as own:
        check_line(coordination, archive, name, target)
        acting, chosen = agreed(lambda c: recovery_claim.claim(c, archive, name, source=source, lease=lease))
        with _given_up_where_it_fails(coordination, acting):
            origin = places(chosen.url)
            vanished = partial(_vanished, coordination, archive, chosen, places)
            try:
                for error in silent_among(coordination, archive, [chosen], places, at_once=True).values():
                    raise error
                _read(coordination, origin, archive, chosen)  # nothing is written, not even a lock, where it is not
            except (UnreadableSourceError, SilentReplicaError) as error:
                raise vanished(error) from error

            def check() -> None:
                own.check()
                coordination.run(lambda c: recovery_claim.go_on(c, acting, lease=lease))

            with locks.acquire(
                origin, "source-side", owner=Owner(), purpose=f"recovery of {name}", wait=wait
            ) as reading:

                def check_both() -> None:
                    check()
                    reading.check()

                work = _Recovery(coordination, acting, _read(coordination, origin, archive, chosen), target, own.fence)
                work.open_target(check)
                try:
                    files, size, kept = work.bring(deep=deep, check=check_both)
                except (DamagedError, LockError, StoreError) as error:
                    if why := _why_unreadable(origin, archive, chosen):
                        raise vanished(why) from error
                    raise
            check()

            def take(connection: Connection, answers: Answers) -> None:
                recovery_claim.take_pointer(connection, acting, pointer=work.index + 1)

            # Once more, this one too: the store may have been brought back from an older copy since.
            run_agreed(coordination, archive, take, places)
            aside = work.adopt(check)
            run_agreed(coordination, archive, lambda c, answers: recovery_claim.finish(c, acting), places)
    return Recovered(name, chosen.name, work.index, files, size, kept, aside)


@contextmanager
def _given_up_where_it_fails(coordination: CoordinationStore, acting: Acting) -> Iterator[None]:
    """Let the next recovery begin at once where this one fails; a killed one's lease has to end."""
    try:
        yield
    except Exception:
        with suppress(HoldfastError):
            coordination.run(lambda c: recovery_claim.give_up(c, acting))
        raise


class UnreadableSourceError(HoldfastError):
    """Replica that a recovery was to copy from, and that cannot be read."""


def _why_unreadable(origin: ObjectStore, archive: str, row: ReplicaRow) -> HoldfastError | None:
    """Return why a replica cannot be read by now; None where it can be."""
    look = {row.name: lambda: open_replica(origin.impatient(), archive, row.name)}
    answer = ask_side_by_side(look, limit_s=LIMIT_S)[row.name]
    if isinstance(answer, (HoldfastError, StoreError)):
        return UnreadableSourceError(f"replica {row.name} cannot be copied from any more: {sentence(answer)}")
    return None


def _vanished(
    coordination: CoordinationStore,
    archive: str,
    source: ReplicaRow,
    places: Callable[[str], ObjectStore],
    error: HoldfastError,
) -> HoldfastError:
    """Return the error of a recovery whose source cannot be read, which says what others there are."""
    rows = coordination.run(lambda c: replicas(c, archive))
    good = [row for row in rows if not row.is_lost and row.name != source.name]
    positions = look_at(coordination, archive, good, places)
    readable = [name for name, place in positions.items() if not isinstance(place, str) and not place.recovering]
    choices = " or ".join(f"--from {name}" for name in readable)
    hint = f"{choices} copies from another one, and keeps what is there" if readable else "no other one can be read"
    return HoldfastError(f"{sentence(error)}; {hint}")


def _read(coordination: CoordinationStore, origin: ObjectStore, archive: str, row: ReplicaRow) -> Archive:
    try:
        opened, place = open_replica(origin, archive, row.name)
    except (HoldfastError, LockError, StoreError) as error:
        raise UnreadableSourceError(f"replica {row.name} cannot be copied from: {error}") from error
    if why := why_lost(row, place):
        coordination.run(lambda c: mark_lost(c, archive, row.name, why))
        raise DamagedError(f"{row.name} is lost itself, since {why}: run this again to copy from another one")
    return opened


class _Recovery:
    """Recovery under way; `origin` is the other replica, as of one commit of it."""

    def __init__(
        self, coordination: CoordinationStore, acting: Acting, origin: Archive, target: ObjectStore, fence: str | None
    ) -> None:
        self._coordination = coordination
        self._acting = acting
        self._origin = origin
        self._target = target
        self._fence = fence
        self._archive: Archive | None = None
        place = origin.state.log
        if place is None:
            raise UsageError(f"{origin.store.url} is no replica")
        self._place = place.model_copy(update={"replica": acting.name})
        self._closed = self._place.model_copy(update={"index": 0, "entry": "", "passed": False, **_recovering()})

    @property
    def index(self) -> int:
        """Return the index of the last entry that the replica will have."""
        return self._place.index

    def open_target(self, check: Callable[[], None]) -> None:
        """Mark the target, made where there is none, as a replica that must not be read."""
        try:
            self._target.head(IDENTITY_KEY)
        except ObjectNotFound:
            identity = self._origin.identity
            self._archive = Archive.create(
                self._target, name=identity.name, number=self._origin.state.format, replica_of=identity
            )
        else:
            self._archive = Archive.open(self._target, recovering=True)
        archive = self._archive
        there = archive.state.log
        if archive.identity.id != self._acting.archive or (there is not None and there.replica != self._acting.name):
            raise UsageError(
                f"{self._target.url} is not the place of replica {self._acting.name}: it is "
                f"{'replica ' + there.replica if there else 'an archive of its own'} ({archive.identity.name}, "
                f"{archive.identity.id})"
            )
        if archive.state.format < self._origin.state.format:
            raise UsageError(
                f"{self._target.url} has format {archive.state.format}, and {self._origin.store.url} "
                f"{self._origin.state.format}: recover it at an empty place"
            )
        if there is not None:
            # What it has executed stays known until its recovery ends: an old store shows by that.
            self._closed = there.model_copy(update=_recovering())
            self._place = self._place.model_copy(update=_reached(there, self._place))
        self._place = self._place.model_copy(update={"recovery": self._closed.recovery})
        seen = archive.state.tip
        # A process that was suspended here for long finds that another recovery has begun, or one of its commits.
        check()

        def plan(state: State) -> Change:
            if state.tip != seen:
                raise EpochOverError(f"{self._target.url} was changed by another process meanwhile: nothing was added")
            return Change(kind="recovering", log=self._closed)

        archive.add(plan, check=check, fence=self._fence)

    def _opened(self) -> Archive:
        if self._archive is None:
            raise RuntimeError("the target was not opened")
        return self._archive

    def bring(self, *, deep: bool, check: Callable[[], object]) -> tuple[int, int, int]:
        """Copy missing files and, where deep, damaged ones; return their number and bytes, and those kept."""
        load(self._origin.state.blocks.values())
        files = {file.path: file for block in self._blocks() for file in block.files()}.values()
        copier = FileCopier(self._origin.store, self._target, deep=deep)
        check()
        while not copier.copy(copier.due(files), seconds=CHUNK_S):
            check()
        return len(copier.copied), copier.copied_size, len(files) - len(copier.copied)

    def _blocks(self) -> list[Block]:
        placed = sorted(self._origin.state.blocks.values(), key=lambda block: block.number)
        return [part.block for part in placed]

    def adopt(self, check: Callable[[], None]) -> tuple[str, ...]:
        """Commit the source's content on the replica; return the ids of blocks set aside."""
        theirs = self._origin.state
        removed = self._removed(self._opened().state.blocks.keys() - theirs.blocks.keys())
        aside: tuple[str, ...] = ()

        def plan(state: State) -> Change:
            nonlocal aside
            if state.log != self._closed:  # locks give order only: this process may have been suspended for long
                raise EpochOverError(
                    f"another process has begun to recover {self._acting.name} meanwhile: nothing was added"
                )
            extra = [key for key in state.blocks if key not in theirs.blocks]
            aside = tuple(key for key in extra if key not in removed)
            return Change(
                kind="recovered",
                remove=tuple(key for key in extra if key in removed),
                add=tuple(block for block in self._blocks() if block.id not in state.blocks),
                aside=aside,
                holds=tuple(hold for key, hold in theirs.holds.items() if key not in state.holds),
                released=tuple(key for key in state.holds if key not in theirs.holds),
                log=self._place,
                adopted=Adopted(
                    ends=dict(theirs.ends),
                    streams=dict(theirs.streams),
                    numbers={key: placed.number for key, placed in theirs.blocks.items()},
                ),
            )

        self._opened().add(plan, check=check, fence=self._fence)
        return aside

    def _removed(self, extra: Set[str]) -> Set[str]:
        """Return those of some blocks that the source had and has removed: they belong to no replica.

        All commits of the source are read, where there are such blocks; a damaged one is passed over.
        """
        removed: set[str] = set()
        if extra:
            with suppress(DamagedError):
                for commit in self._origin.commits():
                    if commit.adopted is not None and commit.adopted.numbers:  # it was recovered itself: begin again
                        removed.clear()
                    removed |= extra & set(commit.remove)
        return removed


def _reached(before: LogPlace, after: LogPlace) -> dict[str, Any]:
    """Return what a replica's place says of entries that it has executed and its source has not."""
    positions = [(before.index, before.entry), (before.reached, before.reached_entry)]
    index, entry = max(positions, key=lambda item: item[0])
    if before.set_aside or (before.recovering and not before.recovery) or index <= after.index:
        return {}
    return {"reached": index, "reached_entry": entry}


def _recovering() -> dict[str, Any]:
    return {"recovering": True, "recovery": uuid.uuid4().hex}
