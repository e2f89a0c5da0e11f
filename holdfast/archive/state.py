"""The state of an archive: what its commits, folded in order, say is there now."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from holdfast.archive.model import FORMAT, WRITER
from holdfast.errors import DamagedError, RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.archive.model import Block, Commit, Versions


@dataclass(frozen=True)
class Placed:
    """A block and the commit that added it."""

    block: Block
    commit: int


@dataclass(frozen=True)
class State:
    """Everything that holds after commit `sequence` (0: an archive without commits)."""

    sequence: int = 0
    tip: str | None = None
    format: int = 1
    min_reader: int = 1
    min_writer: int = 1
    blocks: Mapping[str, Placed] = field(default_factory=dict)
    abandoned: frozenset[str] = frozenset()
    ends: Mapping[str, str] = field(default_factory=dict)
    """The position each source's backups have reached, by source name."""
    streams: Mapping[str, str] = field(default_factory=dict)
    """The position up to which each source's changes are here, where they are followed."""

    def of_run(self, run: str) -> Placed | None:
        """Return the newest block that a run has committed."""
        found = [placed for placed in self.blocks.values() if placed.block.run == run]
        return max(found, key=lambda placed: placed.commit, default=None)

    def finished_by(self, run: str) -> Placed | None:
        """Return the block that a run ends with, if it is here.

        That is a full backup: behind changes more may have been to come, so that only the run itself can tell.
        """
        placed = self.of_run(run)
        if placed is None or placed.block.kind != "snapshot" or placed.block.supplement:
            return None
        return placed

    def apply(self, commit: Commit) -> State:
        """Return the state after `commit`.

        :raises DamagedError: the commit does not continue this state.
        """
        if commit.sequence != self.sequence + 1 or commit.parent != self.tip:
            raise DamagedError(
                f"the commit chain is broken at {commit.sequence}: its parent is {commit.parent}, but commit "
                f"{self.sequence} is {self.tip}: one of commits/{commit.sequence:020d}.json and the one before it "
                "is not what was written. Restore the commits folder from a copy of the archive."
            )
        blocks = {key: placed for key, placed in self.blocks.items() if key not in commit.remove}
        blocks.update((block.id, Placed(block, commit.sequence)) for block in commit.add)
        ends = dict(self.ends)
        ends.update((block.source.name, block.covers.to_position) for block in commit.add)
        streams = dict(self.streams)
        streams.update((block.source.name, end) for block in commit.add if (end := _stream_end(block)))
        return replace(
            self,
            sequence=commit.sequence,
            tip=commit.id,
            format=commit.format,
            min_reader=commit.min_reader,
            min_writer=commit.min_writer,
            blocks=blocks,
            abandoned=self.abandoned | set(commit.abandoned),
            ends=ends,
            streams=streams,
        )


def _stream_end(block: Block) -> str | None:
    """Return up to where a stream's changes are here once this block is; None where it says nothing of that."""
    if block.kind == "changes":
        return block.covers.to_position
    return block.stream.position if block.stream and block.stream.opened else None


@dataclass(frozen=True)
class Change:
    """What a commit is to do.

    :param expected_ends: per source the end position the work started from (None: no backup yet).
    """

    kind: str
    add: tuple[Block, ...] = ()
    remove: tuple[str, ...] = ()
    abandoned: tuple[str, ...] = ()
    expected_ends: Mapping[str, str | None] = field(default_factory=dict)


def validate(state: State, change: Change) -> None:
    """Refuse a change that is not valid in this state: this, with create-if-absent, is the safety.

    :raises RefusedError: what it removes is not there, an id it adds was used or abandoned, or
        another backup of the source was committed meanwhile.
    """
    for identity in change.remove:
        if identity not in state.blocks:
            raise RefusedError(f"block {identity} is no longer in the archive: plan again")
    for identity in (added.id for added in change.add):
        if identity in state.blocks:
            raise RefusedError(f"block {identity} is in the archive already")
        if identity in state.abandoned:
            raise RefusedError(
                f"block {identity} was abandoned: this run was taken for dead and its files may be gone. "
                "Start a new backup."
            )
    for block in change.add:
        if block.kind == "changes" and state.streams.get(block.source.name) != block.covers.from_position:
            raise RefusedError(
                f"changes of {block.source.name} from {block.covers.from_position} on do not follow what is here, "
                f"which ends at {state.streams.get(block.source.name)}: nothing was added. Start the backup again."
            )
    for source, expected in change.expected_ends.items():
        if state.ends.get(source) != expected:
            raise RefusedError(
                f"another backup of {source} was committed meanwhile (its end is {state.ends.get(source)}, "
                f"this one started from {expected}): nothing was added. Start a new backup."
            )


def check_readable(versions: Versions, key: str) -> None:
    """Refuse what only a newer release can read.

    :raises UsageError: naming the format needed.
    """
    if versions.min_reader > FORMAT:
        raise UsageError(
            f"{key} needs a reader of format {versions.min_reader}; {WRITER} reads up to format {FORMAT}. "
            "Upgrade holdfast."
        )


def check_writable(state: State) -> None:
    """Refuse to write where only a newer release may.

    :raises UsageError: naming the format needed.
    """
    if state.min_writer > FORMAT:
        raise UsageError(
            f"this archive needs a writer of format {state.min_writer}; {WRITER} writes up to format "
            f"{FORMAT}. Upgrade holdfast."
        )
