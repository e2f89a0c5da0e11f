"""The state of an archive, folded from its commits in order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from holdfast.archive.format.block_ref import Placed
from holdfast.archive.format.document import Document, Moment
from holdfast.archive.format.paths import check_rows
from holdfast.archive.format.versions import READS, WRITER, WRITES
from holdfast.common.errors import DamagedError, RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from holdfast.archive.format.block import Block
    from holdfast.archive.format.model import Adopted, ArchiveCommit, Hold, LogPlace
    from holdfast.archive.format.versions import Versions


MOST_VOIDED = 100  # numbers that one commit may void


class Removed(Document):
    """Block that is no longer part of the archive; its files may still be there."""

    id: str
    source: str
    added: int  # the commit that added it, which names its files
    removed: int  # the commit that removed it, made at `at`
    at: Moment


@dataclass(frozen=True)
class State:
    """State of an archive after commit `sequence`, 0 for one without commits."""

    sequence: int = 0
    tip: str | None = None
    tip_checksum: str = ""  # of that commit; "" where an earlier release wrote the checkpoint that told of it
    format: int = 1
    min_reader: int = 1
    min_writer: int = 1
    vouched_by: int = 0
    """The newest commit that vouches for all before it: from it on, commits are signed. 0: none does."""
    documents: Mapping[str, str] | None = None
    """SHA-256 of objects that are not signed by themselves and count all the same; None: only commits are signed."""
    void: frozenset[int] = frozenset()  # numbers up to `sequence` that never count
    superseded: Mapping[str, int] = field(default_factory=dict)
    """Newest commits of states that this one takes the place of, by archive id."""
    at: datetime | None = None  # when that commit was made
    blocks: Mapping[str, Placed] = field(default_factory=dict)
    removed: Mapping[str, Removed] = field(default_factory=dict)  # blocks whose files are still to be vacuumed
    holds: Mapping[str, Hold] = field(default_factory=dict)
    abandoned: frozenset[str] = frozenset()
    ends: Mapping[str, str] = field(default_factory=dict)
    """The position each source's backups have reached, by source name."""
    streams: Mapping[str, str] = field(default_factory=dict)
    """The position up to which each source's changes are here, where they are followed."""
    log: LogPlace | None = None
    """Where a replica stands in its archive's update log; None: the archive is at one place only."""
    cut_off: str = ""  # why the commits behind it cannot be read, where an archive was opened as far as that goes
    aside: Mapping[str, Removed] = field(default_factory=dict)
    """Blocks that are no part of the archive, and whose files nobody removes: other replicas never had them."""

    @classmethod
    def begun(cls, number: int) -> State:
        """Return the state of a new archive, created in format `number`."""
        return cls(format=number, min_reader=number, min_writer=number)

    def numbers(self, since: int = 0) -> list[int]:
        """Return the numbers of the commits after one, in order."""
        return [number for number in range(since + 1, self.sequence + 1) if number not in self.void]

    def of_run(self, run: str) -> Placed | None:
        found = [placed for placed in self.blocks.values() if placed.head.run == run]
        return max(found, key=lambda placed: placed.number, default=None)

    def finished_by(self, run: str) -> Placed | None:
        """Return the full backup that a run ends with, if any; behind changes only the run itself can tell."""
        placed = self.of_run(run)
        if placed is None or placed.head.kind != "snapshot" or placed.head.supplement:
            return None
        return placed

    def after(self, commits: Iterable[ArchiveCommit]) -> State:
        """Return the state after more commits; DamagedError: one does not continue the state before it."""
        folded = _Fold(self)
        for commit in commits:
            folded.add(commit)
        return folded.state

    def before_damage(self, commits: Iterable[ArchiveCommit]) -> State:
        """Return the state before the first damaged or missing commit, where `commits` raises DamagedError."""
        whole: list[ArchiveCommit] = []
        folded = _Fold(self)
        try:
            for commit in commits:
                folded.add(commit)
                whole.append(commit)
        except DamagedError as error:
            return replace(self.after(whole), cut_off=str(error))
        return folded.state


class _Fold:
    """Fold of commits into a state, which is copied once: thousands of commits may bring as many blocks."""

    def __init__(self, state: State) -> None:
        self._blocks = dict(state.blocks)
        self._removed = dict(state.removed)
        self._holds = dict(state.holds)
        self._abandoned = set(state.abandoned)
        self._ends = dict(state.ends)
        self._streams = dict(state.streams)
        self._aside = dict(state.aside)
        self._versions = state

    @property
    def state(self) -> State:
        return replace(
            self._versions,
            blocks=self._blocks,
            removed=self._removed,
            holds=self._holds,
            abandoned=frozenset(self._abandoned),
            ends=self._ends,
            streams=self._streams,
            aside=self._aside,
        )

    def add(self, commit: ArchiveCommit) -> None:
        before = self._versions
        if len(commit.voided) > MOST_VOIDED:
            raise DamagedError(f"commit {commit.sequence} voids more than {MOST_VOIDED} numbers: it is not ours")
        if commit.parent_sequence != before.sequence or not commit.follows(before.tip, before.tip_checksum):
            raise DamagedError(
                f"the commit chain is broken at {commit.sequence}: its parent is {commit.parent}, but commit "
                f"{before.sequence} is {before.tip}: one of commits/{commit.sequence:020d}.json and the one before it "
                "is not what was written. Restore the commits folder from a copy of the archive."
            )
        self._remove(commit)
        for block in commit.add:
            self._add(block, commit)
        self._forget_sources(commit)
        if commit.adopted is not None:
            self._adopt(commit.adopted)
        self._abandoned.update(commit.abandoned)
        for key in commit.released:
            self._holds.pop(key, None)
        self._holds.update((hold.id, hold) for hold in commit.holds)
        self._versions = replace(
            before,
            sequence=commit.sequence,
            tip=commit.id,
            tip_checksum=commit.own_checksum,
            format=commit.format,
            min_reader=commit.min_reader,
            min_writer=commit.min_writer,
            vouched_by=before.vouched_by if commit.vouches is None else commit.sequence,
            documents=before.documents if commit.documents is None else commit.documents,
            void=before.void.union(commit.voided),
            superseded={**before.superseded, **commit.supersedes},
            at=commit.committed_at,
            log=commit.log or before.log,
        )

    def _add(self, block: Block, commit: ArchiveCommit) -> None:
        self._blocks[block.id] = Placed(block, commit.sequence, number=_number(commit, block))
        self._aside.pop(block.id, None)
        self._removed.pop(block.id, None)
        # What was made of blocks that were here says nothing of how far the source's backups have come.
        if not block.parts and block.after is None:
            self._ends[block.source.name] = block.covers.to_position
            if end := stream_end(block):
                self._streams[block.source.name] = end

    def _forget_sources(self, commit: ArchiveCommit) -> None:
        for source in {each.source for key in commit.remove if (each := self._removed.get(key))}:
            if not any(placed.source == source for placed in self._blocks.values()):
                self._ends.pop(source, None)
                self._streams.pop(source, None)

    def _adopt(self, adopted: Adopted) -> None:
        self._ends, self._streams = dict(adopted.ends), dict(adopted.streams)
        for key, number in adopted.numbers.items():
            if self._blocks[key].number != number:
                self._blocks[key] = self._blocks[key].numbered(number)

    def _remove(self, commit: ArchiveCommit) -> None:
        for key in commit.vacuumed:
            self._removed.pop(key, None)
        for gone, into in ((commit.remove, self._removed), (commit.aside, self._aside)):
            for key in gone:
                placed = self._blocks.pop(key, None)
                if placed is None:
                    raise DamagedError(f"commit {commit.sequence} removes block {key}, which is not in the archive")
                into[key] = Removed(
                    id=key,
                    source=placed.source,
                    added=placed.commit,
                    removed=commit.sequence,
                    at=commit.committed_at,
                )


def stream_end(block: Block) -> str | None:
    """Return the position that a stream's changes reach with this block; None: it says nothing of that."""
    if block.kind == "changes":
        return block.covers.to_position
    return block.stream.position if block.stream and block.stream.opened else None


def _number(commit: ArchiveCommit, block: Block) -> int:
    if commit.adopted is not None and block.id in commit.adopted.numbers:
        return commit.adopted.numbers[block.id]
    if commit.log is not None and commit.log.base:
        return commit.log.base + commit.log.index
    return commit.sequence


@dataclass(frozen=True)
class Change:
    """The content of a commit that is still to be made."""

    kind: str
    add: tuple[Block, ...] = ()
    remove: tuple[str, ...] = ()
    abandoned: tuple[str, ...] = ()
    vacuumed: tuple[str, ...] = ()
    holds: tuple[Hold, ...] = ()
    released: tuple[str, ...] = ()
    reason: str = ""  # why, in words, where a person has to say so
    expected_ends: Mapping[str, str | None] = field(default_factory=dict)
    """Per source the end position the work started from (None: no backup yet)."""
    format: int | None = None  # the one that the archive has from then on; None: the one it has
    log: LogPlace | None = None  # of a replica: where it then stands in the update log; None: where it stood
    # adopted, aside, vouches, documents, supersedes: as in `ArchiveCommit`
    adopted: Adopted | None = None
    aside: tuple[str, ...] = ()
    vouches: tuple[str, ...] | None = None
    documents: Mapping[str, str] | None = None
    supersedes: Mapping[str, int] = field(default_factory=dict)
    void: int | None = None
    """The number that was used last, where some behind the newest commit are to count for nothing."""

    @property
    def executes_entry(self) -> bool:
        """Return whether this executes an entry of the update log, by which it was decided already."""
        return self.log is not None and bool(self.log.entry) and not self.log.recovering


def validate(state: State, change: Change) -> None:
    """Refuse a change that is not valid in this state: with create-if-absent, this is the safety.

    :raises RefusedError: what it removes is not there, an id it adds was used or abandoned, or another backup of the
        source was committed meanwhile.
    """
    if change.format is not None and change.format != state.format + 1:
        raise RefusedError(f"the archive has format {state.format} now: it cannot be lifted to {change.format}")
    _validate_place(state, change)
    _validate_removals(state, change)
    for block in change.add:
        if change.adopted is None:
            _validate_block(state, block, again=change.executes_entry)
    for source, expected in change.expected_ends.items():
        if state.ends.get(source) != expected:
            raise RefusedError(
                f"another backup of {source} was committed meanwhile (its end is {state.ends.get(source)}, "
                f"this one started from {expected}): nothing was added. Start a new backup."
            )


def _validate_place(state: State, change: Change) -> None:
    """Refuse a replica's change that neither is its log's next entry nor concerns this replica alone."""
    was, now = state.log, change.log
    if was is None or (change.adopted is not None and _takes_over(was, now)):
        return
    if now is None or now.recovering or not now.entry:
        if change.add or change.remove or change.holds or change.released:
            raise UsageError(
                f"this is replica {was.replica} of a replicated archive: what all replicas are to have goes through "
                "their update log. Say where that is: 'replicas' and 'store' in archives.yaml, or HOLDFAST_STORE"
            )
        return
    if (now.store, now.index) != (was.store, was.index + 1) or was.recovering:
        raise RefusedError(
            f"replica {was.replica} stands at entry {was.index} of log {was.store}"
            f"{' and is being recovered' if was.recovering else ''}: entry {now.index} of {now.store} does not follow"
        )


def _takes_over(was: LogPlace, now: LogPlace | None) -> bool:
    """Return whether a change makes a replica what another one is, and executes no entry."""
    return now is None or not now.entry or (was.recovering and now.recovery == was.recovery != "")


def _validate_removals(state: State, change: Change) -> None:
    for identity in (*change.remove, *change.aside):
        if identity not in state.blocks:
            raise RefusedError(f"block {identity} is no longer in the archive: plan again")
    for identity in change.abandoned:
        if identity in state.blocks:
            raise RefusedError(f"block {identity} is in the archive: it cannot be abandoned. Plan again")
    for identity in change.vacuumed:
        if identity not in state.removed:
            raise RefusedError(f"block {identity} was not removed: its files are needed. Plan again")
    for identity in change.released:
        if identity not in state.holds:
            raise RefusedError(f"there is no hold {identity}: it may have been taken back meanwhile")


def _validate_block(state: State, block: Block, *, again: bool) -> None:
    """Refuse a block that cannot be added.

    :param again: it may have been here and gone: a replica that was recovered from one that is further back meets
        entries which it had executed before.
    """
    if block.id in state.blocks or (block.id in state.removed and not again):
        raise RefusedError(f"block {block.id} is in the archive already, or was")
    if block.id in state.abandoned:
        raise RefusedError(
            f"block {block.id} was abandoned: this run was taken for dead and its files may be gone. "
            "Start a new backup."
        )
    check_rows(block)
    if block.kind != "changes" or block.parts:
        return
    if state.streams.get(block.source.name) != block.covers.from_position:
        raise RefusedError(
            f"changes of {block.source.name} from {block.covers.from_position} on do not follow what is here, "
            f"which ends at {state.streams.get(block.source.name)}: nothing was added. Start the backup again."
        )


def check_readable(versions: Versions, key: str) -> None:
    """Raise UsageError, with the format needed, for a document that only a newer release can read."""
    if versions.min_reader > READS:
        raise UsageError(
            f"{key} needs a reader of format {versions.min_reader}; {WRITER} reads up to format {READS}. "
            "Upgrade holdfast."
        )


def check_writable(state: State) -> None:
    """Raise UsageError, with the format needed, for an archive that only a newer release may write."""
    if state.min_writer > WRITES:
        raise UsageError(
            f"this archive needs a writer of format {state.min_writer}; {WRITER} writes up to format "
            f"{WRITES}. Upgrade holdfast."
        )
