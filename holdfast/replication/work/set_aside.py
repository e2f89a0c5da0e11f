"""Blocks that a recovery has set aside, since only the recovered replica had them.

They are no part of the archive, and no vacuum removes their files. Here they are listed, brought back as an archive of
their own, or given to the vacuum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.archive import locks
from holdfast.archive.archive import IDENTITY_KEY, Archive
from holdfast.archive.files.transfer import CHUNK_S, FileCopier, missing_files
from holdfast.archive.format.block_ref import load
from holdfast.archive.format.document import iso
from holdfast.archive.format.model import Adopted
from holdfast.archive.format.state import Change, State
from holdfast.common.errors import DamagedError, RefusedError, UsageError
from holdfast.replication.log.consistency_check import open_replica
from holdfast.replication.work.replica import ReplicatedArchive
from holdfast.replication.work.replica_vacuum import abandon
from locking import Owner
from locking.store import ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from holdfast.archive.format.block import Block
    from holdfast.archive.format.block_ref import Placed
    from holdfast.replication.log.replicas import ReplicaRow
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.storage import ObjectStore


@dataclass(frozen=True)
class AsideBlock:
    """Block set aside by a commit, made at `at`; so many of its files are missing."""

    block: Block
    commit: int
    at: datetime
    missing: int

    def describe(self) -> dict[str, Any]:
        """Return it as `replica aside list --json` prints it."""
        block = self.block
        return {
            "block": block.id,
            "source": block.source.name,
            "kind": block.kind,
            "restorable_to": iso(block.covers.to_time),
            "position": block.covers.to_position,
            "rows": block.rows,
            "bytes": block.size,
            "commit": self.commit,
            "set_aside_at": iso(self.at),
            "missing_files": self.missing,
        }


def aside_ids(state: State) -> list[str]:
    """Return the ids of a replica's blocks that are set aside and were not dropped."""
    return sorted(state.aside.keys() - state.abandoned)


def listed(store: ObjectStore, archive: str, name: str) -> list[AsideBlock]:
    """Return the blocks that are set aside at a replica, the oldest first."""
    replica, _ = open_replica(store, archive, name)
    blocks = []
    for identity in aside_ids(replica.state):
        aside = replica.state.aside[identity]
        block = next(block for block in replica.commit(aside.added).add if block.id == identity)
        missing = sum(1 for _ in missing_files(store, block.files()))
        blocks.append(AsideBlock(block, aside.removed, aside.at, missing))
    return sorted(blocks, key=lambda aside: (aside.commit, aside.block.covers.to_time, aside.block.id))


@dataclass(frozen=True)
class BroughtBack:
    """Result of bringing blocks back, with `others` beside them, and those `left_out` without files."""

    archive: str
    commit: int
    blocks: tuple[str, ...]
    others: tuple[str, ...]
    left_out: tuple[str, ...]
    files: int
    size: int


def bring_back(
    store: ObjectStore, target: ObjectStore, archive: str, name: str, *, commit: int | None = None, wait: float = 0.0
) -> BroughtBack:
    """Make an archive of what a replica had, before its recovery, of the sources with blocks set aside.

    It follows no log. Run again after a kill, it goes on with the files that are there.

    :param target: an empty place.
    :param commit: the replica's commit that set the blocks aside; None: the newest that did.
    :raises UsageError: nothing is set aside, or not by that commit; or the place is another archive.
    :raises DamagedError: files of the blocks are not there any more.
    """
    open_replica(store, archive, name)  # nothing is written where it is not, not even a lock
    purpose = f"bringing back what was set aside at {name}"
    with locks.acquire(store, "source-side", owner=Owner(), purpose=purpose, wait=wait) as held:
        replica, _ = open_replica(store, archive, name)
        chosen, ids = _chosen(replica.state, commit)
        before = State.begun(replica.identity.format).after(_until(replica, chosen))
        sources = {before.blocks[identity].source for identity in ids}
        placed = [block for block in before.blocks.values() if block.source in sources]
        load(placed)
        kept, left_out = _with_files(store, placed)
        if lost := sorted(set(left_out) & set(ids)):
            raise DamagedError(f"{store.url} lacks files of block {', '.join(lost)} by now: it cannot come back")
        made = _begun(target, replica, before.format)
        copier = FileCopier(store, target)
        files = [file for part in kept for file in part.block.files()]
        held.check()
        while not copier.copy(copier.due(files), seconds=CHUNK_S):
            held.check()
        committed = _commit(made, before, kept, sources, check=held.check)
    others = tuple(part.id for part in kept if part.id not in ids)
    return BroughtBack(
        made.identity.id, committed, tuple(ids), others, tuple(left_out), len(copier.copied), copier.copied_size
    )


def _chosen(state: State, commit: int | None) -> tuple[int, list[str]]:
    """Return the commit that set blocks aside, and the ids of these."""
    by_commit: dict[int, list[str]] = {}
    for identity in aside_ids(state):
        by_commit.setdefault(state.aside[identity].removed, []).append(identity)
    if not by_commit:
        raise UsageError("no block is set aside at this replica: there is nothing to bring back")
    chosen = max(by_commit) if commit is None else commit
    if chosen not in by_commit:
        commits = ", ".join(map(str, sorted(by_commit)))
        raise UsageError(f"commit {chosen} of this replica has set nothing aside; these have: {commits}")
    return chosen, by_commit[chosen]


def _until(replica: Archive, commit: int) -> Iterator[Any]:
    for earlier in replica.commits():
        if earlier.sequence >= commit:
            return
        yield earlier


def _with_files(store: ObjectStore, placed: Iterable[Placed]) -> tuple[list[Placed], list[str]]:
    """Return the blocks with all their files, and the ids of the others."""
    blocks = list(placed)
    files = [file for part in blocks for file in part.block.files()]
    missing = {file.path for file in missing_files(store, files)}
    kept = [part for part in blocks if not any(file.path in missing for file in part.block.files())]
    return kept, sorted({part.id for part in blocks} - {part.id for part in kept})


def _begun(target: ObjectStore, replica: Archive, number: int) -> Archive:
    """Return an archive without commits at the target, made by this or by an earlier try."""
    try:
        target.head(IDENTITY_KEY)
    except ObjectNotFound:
        return Archive.create(target, name=replica.identity.name, number=number)
    there = Archive.open(target)
    if there.state.sequence or there.identity.id == replica.identity.id:
        raise UsageError(f"{target.url} is an archive already: what was set aside comes back at an empty place")
    return there


def _commit(
    made: Archive, before: State, kept: Sequence[Placed], sources: Collection[str], *, check: Callable[[], None]
) -> int:
    change = Change(
        kind="brought_back",
        add=tuple(part.block for part in sorted(kept, key=lambda part: part.number)),
        adopted=Adopted(
            ends={source: end for source, end in before.ends.items() if source in sources},
            streams={source: end for source, end in before.streams.items() if source in sources},
            numbers={part.id: part.number for part in kept},
        ),
    )
    return made.add(lambda state: change, check=check, fence=None).sequence


def drop(
    coordination: CoordinationStore,
    archive: str,
    row: ReplicaRow,
    blocks: Collection[str],
    *,
    places: Callable[[str], ObjectStore],
    wait: float = 0.0,
) -> tuple[int, tuple[str, ...]]:
    """Give blocks that were set aside to the next vacuum of their replica; return the commit's number and the ids.

    The coordination store notes first that no entry may add them any more.

    :raises UsageError, RefusedError: one is not set aside; or an entry of the log adds it.
    """
    store = places(row.url)
    open_replica(store, archive, row.name)  # nothing is written where it is not, not even a lock
    with locks.acquire(store, "truncation", owner=Owner(), purpose="dropping what was set aside", wait=wait) as held:
        replica = ReplicatedArchive.begin(store, coordination, places)
        if unknown := sorted(set(blocks) - set(aside_ids(replica.state))):
            said = ", ".join(unknown)
            raise UsageError(f"block {said} is not set aside at {row.name}: see 'holdfast replica aside list'")
        _, acting = replica.in_use()
        going = coordination.run(lambda c: abandon(c, acting, blocks))
        if needed := sorted(set(blocks) - going):
            raise RefusedError(f"an entry of the update log adds block {', '.join(needed)}: its files are still needed")
        change = Change(kind="dropped", abandoned=tuple(sorted(going)))
        commit = replica.add(lambda state: change, check=held.check, fence=held.fence)
    return commit.sequence, change.abandoned
