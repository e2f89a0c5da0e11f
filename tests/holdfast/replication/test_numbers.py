"""Blocks go by the same numbers on every replica, whatever commits each of them makes beside."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.archive import Archive, Change
from holdfast.archive.format.checkpoint import read_newest, write_checkpoint
from holdfast.archive.format.state import State
from holdfast.archive.history.coverage import blocks_of, covered_ranges, stream_tip
from holdfast.archive.history.target_resolution import resolve
from holdfast.archive.maintenance.compaction import Group, join
from holdfast.archive.maintenance.consolidation import synthetic_block
from holdfast.archive.maintenance.verify import verify
from holdfast.common.lsn import show_position
from holdfast.operations.backup_decision import newest_with_stream
from holdfast.replication.log.replicas import mark_lost
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work.leading import leading
from tests.support.replicas.given_up import changes, full
from tests.support.replicas.replicated import Replicas, Template, kept, made_backup, nothing

pytestmark = pytest.mark.slow

POSITIONS = ("0/A00", "0/B00", "0/C00", "0/D00", "0/E00", "0/F00")


def add(replicas: Replicas, position: str, since: str | None = None) -> str:
    """Make a full backup, or one of changes since a position, through `near`; return its block."""
    archive = replicas.open("near")
    _, plan = made_backup(archive.store, "src")
    (block,) = plan(archive.state).add
    block = (full(position) if since is None else changes(since, position))(block)
    archive.add(lambda state: Change("backup", add=(block,)), check=nothing, fence=None)
    return block.id


def made_and_compacted(folder: Path, coordination: CoordinationStore) -> Replicas:
    three = Replicas.begun(folder, coordination, "far", "off", backups=4)
    three.back_up("near")
    three.coordination.run(lambda c: mark_lost(c, three.archive, "far", "rot"))
    three.recover("far")
    full_backup = add(three, POSITIONS[0])
    made = [add(three, end, since) for since, end in pairwise(POSITIONS)]
    with leading(three.open("near")) as leader:
        group = Group("src", tuple(leader.state.blocks[block] for block in made[:3]))
        block = join(group, identity="c" * 32, run="r", tables=group.blocks[-1].block.tables, transactions=None)
        leader.add(lambda state: Change("compaction", add=(block,), remove=group.ids), check=nothing, fence=None)
        cut = leader.state.blocks[made[-2]]
        snapshot = synthetic_block(cut, identity="d" * 32, run="r", tables=cut.block.tables, packs=(), left_out=())
        leader.add(lambda state: Change("consolidation", add=(snapshot,)), check=nothing, fence=None)
    three.sync("far")
    three.backups[:] = [full_backup, *made]
    return three


@pytest.fixture(scope="module")
def compacted_once() -> Iterator[Template]:
    template = kept(made_and_compacted)
    yield template
    template.keeper.cleanup()


@pytest.fixture
def compacted(tmp_path: Path, coordination: CoordinationStore, compacted_once: Template) -> Replicas:
    """Replicas whose commits have other numbers, of which one leads and has joined older changes of several.

    `near` had backups before it became the first one, `far` was made anew since, and `off` came last.
    """
    return Replicas.copy_of(compacted_once, tmp_path, coordination)


def seen(state: State) -> object:
    """Return all that follows from the order of the blocks."""
    tip, newest = stream_tip(state, "src"), newest_with_stream(state, "src")
    return (
        [(placed.id, placed.number) for placed in blocks_of(state, "src")],
        [(show_position(each.first), show_position(each.last)) for each in covered_ranges(state, "src")],
        (tip.id if tip else "", newest.id if newest else ""),
        state.ends,
        state.streams,
    )


def test_all_replicas_have_the_same_restore_points_after_a_compaction(compacted: Replicas) -> None:
    compacted.sync("off")
    near, far, off = (compacted.state(name) for name in ("near", "far", "off"))
    assert len({near.sequence, far.sequence, off.sequence}) > 1  # else their own numbers would do
    assert seen(near) == seen(far) == seen(off)
    assert [(show_position(each.first), show_position(each.last)) for each in covered_ranges(far, "src")] == [
        (POSITIONS[0], POSITIONS[-1])
    ]
    tip = stream_tip(far, "src")
    assert tip is not None
    assert tip.id == compacted.backups[-1]


def test_a_replica_that_was_made_anew_has_the_order_of_the_other_one(compacted: Replicas) -> None:
    compacted.coordination.run(lambda c: mark_lost(c, compacted.archive, "off", "rot"))
    compacted.recover("off")
    assert seen(compacted.state("off")) == seen(compacted.state("near"))
    compacted.coordination.run(lambda c: mark_lost(c, compacted.archive, "near", "rot"))
    compacted.recover("near", source="off")  # which has all blocks already
    assert seen(compacted.state("near")) == seen(compacted.state("far"))


def test_a_commit_is_the_same_moment_on_each(compacted: Replicas) -> None:
    compacted.sync("off")
    numbers = [placed.number for placed in blocks_of(compacted.state("near"), "src")]
    assert len(set(numbers)) == len(numbers)
    for number in numbers:
        found = {
            show_position(resolve(compacted.state(name), compacted.place(name), "src", f"commit:{number}").position)
            for name in ("near", "far", "off")
        }
        assert len(found) == 1


def test_a_run_that_names_the_number_of_its_block_is_not_taken_for_a_lost_commit(compacted: Replicas) -> None:
    archive = Archive.open(compacted.place("far"))
    number = max(placed.number for placed in archive.state.blocks.values())
    assert number > archive.state.sequence
    assert not any("is missing, which" in each.what for each in verify(archive).damage)


def test_a_checkpoint_keeps_them(compacted: Replicas) -> None:
    archive = Archive.open(compacted.place("far"))
    write_checkpoint(archive.store, archive.identity.id, archive.state)
    state = read_newest(archive.store, archive.identity.id)
    assert state is not None
    assert seen(state) == seen(compacted.state("near"))
