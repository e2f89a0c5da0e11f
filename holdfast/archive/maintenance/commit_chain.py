"""Verification that commits follow each other, and make the state that a checkpoint holds."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from holdfast.archive.format.commits import COMMITS, commit_key, missing_commits, number_of
from holdfast.archive.format.state import State
from holdfast.archive.format.trust import CommitReader
from holdfast.common.errors import DamagedError
from holdfast.common.side_by_side import do_side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.archive.archive import Archive
    from holdfast.archive.format.model import ArchiveCommit
    from holdfast.storage import ObjectStore

_AT_ONCE: Final = 8
_TOGETHER: Final = 256


def broken_commits(archive: Archive, *, since: int = 0, tip: str | None = None) -> list[tuple[int, str]]:
    """Return the missing or damaged commits up to the archive's state, each with its problem.

    From the first commit on, what they make is compared with the state, too, which may be that of a checkpoint.

    :param since: only those behind this one, whose id is `tip`.
    """
    state = archive.state
    made: State | None = State.begun(archive.identity.format) if since == 0 else None
    broken: list[tuple[int, str]] = []
    before, last_read = (tip, "") if tip is not None else None, since
    listed = [number for number in _listed(archive.store, since) if number not in state.void]
    reader = CommitReader(archive.store, state.vouched_by)
    for first, last in _holes(sorted({*listed, *state.void}), since + 1, state.sequence):
        broken.append((first, str(missing_commits(first, last))))
        before, made = None, None
    for numbers in _groups([number for number in listed if number <= state.sequence]):
        commits: list[ArchiveCommit] = []
        for number, commit in zip(numbers, _read(reader, numbers), strict=True):
            if isinstance(commit, DamagedError):
                broken.append((number, str(commit)))
                before = None
                continue
            if before is not None and not commit.follows(*before) and commit.parent_sequence in (since, last_read):
                broken.append((number, f"{commit_key(number)} does not follow the commit before it: one of both is not "
                              "what was written. Restore the commits folder from a copy of the archive."))  # fmt: skip
            before, last_read = (commit.id, commit.own_checksum), number
            commits.append(commit)
        made = _after(made, commits) if not broken else None
    if not broken and before is not None and before[0] != state.tip:
        broken.append((state.sequence, f"{commit_key(state.sequence)} is not the commit that was verified before"))
    if made is not None and not broken and not _are_equal(made, state):
        words = "the checkpoint tells something else than the commits: remove the objects under checkpoints/"
        broken.append((state.sequence, f"{words}, which costs nothing but time"))
    return sorted(broken)


def commits_behind(archive: Archive) -> tuple[list[ArchiveCommit], dict[str, str]]:
    """Return the commits after the damage that cuts off a state, and the problems of the damaged ones by key."""
    here = archive.state.sequence
    listed = _listed(archive.store, max(here - 1, 0))
    first = here if here and here not in listed else here + 1
    # Only what is listed is read: a forged name could have any number.
    numbers = [number for number in listed if number >= first]
    bad = {
        commit_key(begin): str(missing_commits(begin, end))
        for begin, end in _holes(numbers, first, numbers[-1] if numbers else 0)
    }
    reader = CommitReader(archive.store, archive.state.vouched_by)
    commits = dict(zip(numbers, _read(reader, numbers), strict=True))
    bad |= {commit_key(number): str(each) for number, each in commits.items() if isinstance(each, DamagedError)}
    bad = dict(sorted(bad.items()))
    if not bad:
        bad = {commit_key(first): archive.state.cut_off}
    return [each for each in commits.values() if not isinstance(each, DamagedError)], bad


def _listed(store: ObjectStore, since: int) -> list[int]:
    keys = (listed.key for listed in store.list(COMMITS, start_after=commit_key(since)).objects)
    return sorted(number for number in map(number_of, keys) if number is not None)


def _holes(numbers: Sequence[int], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield what is missing of the numbers from `first` to `last` among those in order.

    A missing number comes alone, unless more are missing in a row than are read together: those come as one span.
    """
    edges = [first - 1, *(number for number in numbers if first <= number <= last), last + 1]
    for before, after in pairwise(edges):
        if after - before > _TOGETHER:
            yield before + 1, after - 1
        else:
            yield from ((number, number) for number in range(before + 1, after))


def _groups(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for begin in range(0, len(numbers), _TOGETHER):
        yield numbers[begin : begin + _TOGETHER]


def _read(reader: CommitReader, numbers: Sequence[int]) -> list[ArchiveCommit | DamagedError]:
    return do_side_by_side(partial(_outcome, reader), numbers, at_once=_AT_ONCE)


def _outcome(reader: CommitReader, number: int) -> ArchiveCommit | DamagedError:
    try:
        return reader.read(number)
    except DamagedError as error:
        return error


def _after(state: State | None, commits: Sequence[ArchiveCommit]) -> State | None:
    return None if state is None else state.after(commits)


def _are_equal(made: State, state: State) -> bool:
    blocks = [{key: (placed.commit, placed.number) for key, placed in each.blocks.items()} for each in (made, state)]
    rest = [
        (each.tip, each.format, each.void, each.removed, each.holds, each.abandoned, each.ends, each.streams)
        for each in (made, state)
    ]
    return blocks[0] == blocks[1] and rest[0] == rest[1]
