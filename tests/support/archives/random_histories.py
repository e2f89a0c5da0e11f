"""Histories of backups that nobody thought of: steps to draw from, each taken where it can be."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from hypothesis import strategies as st

from holdfast.archive.format.block import Block
from holdfast.archive.history.coverage import blocks_of
from tests.support.archives.backups import SOURCE, Backups

Step = Callable[[Backups, int], object]

STEPS: dict[str, Step] = {
    "full": lambda made, number: made.full(),
    "part": lambda made, number: made.full(chosen=[number % 3 + 1]),
    "alone": lambda made, number: made.full(stream=False),
    "late": lambda made, number: made.full(opened=True),
    "changes": lambda made, number: made.changes(),
    "pieces": lambda made, number: made.changes(made.lsn - 0x20, made.lsn - 0x40, with_sequences=bool(number % 2)),
    "anew": lambda made, number: made.begin_anew(number % 3 + 1),
    "drop": lambda made, number: made.drop(number % 3 + 1) if len(made.tables) > 1 else None,
    "fail over": lambda made, number: fail_over(made, number),
    "leave": lambda made, number: made.leave(number % 3 + 1),
    "join": lambda made, number: join_some(made, number),
    "consolidate": lambda made, number: consolidate(made),
    "remove": lambda made, number: remove_one(made, number),
}


def consolidate(made: Backups) -> None:
    cuts = [placed for placed in blocks_of(made.state, SOURCE) if placed.head.kind == "changes" and placed.head.is_cut]
    if cuts and any(cuts[-1].commit == point.commit for point in made.points()):
        made.consolidate(cuts[-1])


def remove_one(made: Backups, number: int) -> None:
    if len(made.state.blocks) > 3:
        made.remove(sorted(made.state.blocks)[number % len(made.state.blocks)])


def join_some(made: Backups, number: int) -> None:
    """Join two or more change blocks that follow each other and that no snapshot lies between."""
    runs: list[list[Block]] = [[]]
    for placed in blocks_of(made.state, SOURCE):
        block = made.state.blocks[placed.home or placed.id].block
        follows = runs[-1] and runs[-1][-1].covers.to_position == block.covers.from_position
        if placed.head.kind != "changes" or block.parts or not (follows or not runs[-1]):
            runs.append([])
        if placed.head.kind == "changes" and not block.parts:
            runs[-1].append(block)
    joinable = [run for run in runs if len(run) > 1]
    if joinable:
        run = joinable[number % len(joinable)]
        made.join([made.state.blocks[block.id] for block in run[:3]])


def fail_over(made: Backups, number: int) -> None:
    """Let another server take the source's place, and take a full backup of it."""
    made.fail_over(0x1000 + 0x40 * number)
    made.write(number % 3 + 1)
    made.full(opened=True)


histories = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 5)), max_size=14)


def lived(steps: list[tuple[str, int]]) -> Backups:
    """Return the backups of a source that these steps were taken of, after a full one."""
    made = Backups()
    made.write(1, 2, 3)
    made.full(opened=True)
    for step, number in steps:
        made.wait(timedelta(minutes=7))
        made.write(number % 3 + 1, (number + 1) % 3 + 1)
        STEPS[step](made, number)
    return made
