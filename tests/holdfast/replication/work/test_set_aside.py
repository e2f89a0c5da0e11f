"""Blocks that a recovery has set aside are listed, brought back elsewhere, or given to the next vacuum."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.common.errors import DamagedError, UsageError
from holdfast.replication.log import schema
from holdfast.replication.log.replicas import ReplicaRow, replica
from holdfast.replication.work.set_aside import aside_ids, bring_back, drop
from holdfast.storage import ObjectStore, open_store
from tests.support.replicas import rebuilt
from tests.support.replicas.replicated import Replicas

pytestmark = pytest.mark.slow


@pytest.fixture
def aside(two: Replicas) -> Replicas:
    """`near` had one block that `far` never had, and was made anew from that one."""
    rebuilt.bring_back(two, ahead="near", behind="far")
    rebuilt.rebuild(two.coordination, rebuilt.urls(two), source="far")
    two.recover("near")
    return two


@pytest.fixture
def empty_place(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path / "back"))


def row(given: Replicas, name: str) -> ReplicaRow:
    return given.coordination.run(lambda c: replica(c, given.archive, name))


def files_of(given: Replicas, block: str) -> list[Path]:
    return [path for path in (given.folder / "near" / "data").rglob("*") if path.is_file() and block in str(path)]


def test_it_comes_back_with_what_it_builds_on(aside: Replicas, empty_place: ObjectStore) -> None:
    done = bring_back(aside.place("near"), empty_place, aside.archive, "near")
    assert done.blocks == (aside.backups[-1],)
    assert set(done.others) == set(aside.backups[:-1])
    assert done.left_out == ()
    made = Archive.open(empty_place)
    assert (made.identity.id, made.state.sequence) == (done.archive, done.commit)
    assert made.identity.id != aside.archive
    assert made.state.log is None
    assert made.state.ends["shop_db"] == made.state.blocks[done.blocks[0]].block.covers.to_position
    assert {path.stat().st_size for path in aside.folder.joinpath("back", "data").rglob("*.json")} == {2}
    for place in (empty_place, aside.place("near"), aside.place("far")):
        with pytest.raises(UsageError, match="is an archive already: what was set aside comes back at an empty place"):
            bring_back(aside.place("near"), place, aside.archive, "near")


def test_a_place_that_an_earlier_try_has_begun_is_gone_on_with(aside: Replicas, empty_place: ObjectStore) -> None:
    begun = Archive.create(empty_place, name="shop")
    assert bring_back(aside.place("near"), empty_place, aside.archive, "near").archive == begun.identity.id


def test_a_block_that_lacks_files_cannot_come_back_and_another_stays_out(
    aside: Replicas, empty_place: ObjectStore
) -> None:
    files_of(aside, aside.backups[0])[0].unlink()
    assert bring_back(aside.place("near"), empty_place, aside.archive, "near").left_out == (aside.backups[0],)
    files_of(aside, aside.backups[-1])[0].unlink()
    with pytest.raises(DamagedError, match=f"lacks files of block {aside.backups[-1]} by now: it cannot come back"):
        bring_back(aside.place("near"), empty_place, aside.archive, "near")


def test_what_is_dropped_is_no_longer_aside_and_never_added_again(aside: Replicas) -> None:
    block = aside.backups[-1]
    with pytest.raises(UsageError, match="block unknown is not set aside at near"):
        drop(aside.coordination, aside.archive, row(aside, "near"), [block, "unknown"], places=open_store)
    assert aside_ids(aside.state("near")) == [block]
    commit, dropped = drop(aside.coordination, aside.archive, row(aside, "near"), [block], places=open_store)
    assert (commit, dropped) == (aside.state("near").sequence, (block,))
    assert aside_ids(aside.state("near")) == []
    assert files_of(aside, block)  # until the vacuum
    noted = aside.coordination.run(lambda c: c.execute(schema.abandoned.select()).mappings().all())
    assert [(each["block"], each["replica"]) for each in noted] == [(block, "near")]
