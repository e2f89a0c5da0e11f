"""A lost replica is made anew from another one, and never read or followed before all is there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from holdfast.archive import Archive, Change
from holdfast.archive.files.transfer import FileCopier
from holdfast.common.errors import BusyError, DamagedError, HoldfastError, RefusedError
from holdfast.replication.log import recovery_claim, schema
from holdfast.replication.log.errors import EpochOverError, LostReplicaError, OldStoreError
from holdfast.replication.log.replicas import mark_lost, replica
from holdfast.replication.work import membership, recovery
from holdfast.replication.work.leading import leading
from holdfast.replication.work.membership import elect
from holdfast.replication.work.set_aside import bring_back, drop
from holdfast.storage import open_store
from tests.support.replicas.hung import hanging
from tests.support.replicas.rebuilt import away, copied
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow


def lose(replicas: Replicas, name: str) -> None:
    replicas.coordination.run(lambda c: mark_lost(c, replicas.archive, name, "its disk was changed"))


def data_files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "data").rglob("*") if path.is_file())


def test_only_what_is_missing_or_damaged_is_copied(two: Replicas) -> None:
    for _ in range(10):
        two.back_up("near")
    two.sync("far")
    lose(two, "far")
    files = data_files(two.folder / "far")
    files[3].unlink()
    files[8].chmod(0o644)
    files[8].write_bytes(b"x" * files[8].stat().st_size)
    done = two.recover("far")
    assert (done.files, done.kept, done.source, done.index) == (2, 20, "near", 10)
    assert done.size == files[3].stat().st_size + files[8].stat().st_size
    assert two.is_whole("far")
    assert two.sync("far").entries == 0


def test_a_mount_that_has_vanished_is_never_written_into(two: Replicas) -> None:
    two.back_up("near")
    lose(two, "far")
    away(two, "far")
    gone = "there is no archive at .*/far, where replica far is to be. Is the disk there, and the bucket?"
    with pytest.raises(DamagedError, match=gone):
        two.recover("far")
    with pytest.raises(DamagedError, match=gone):
        bring_back(two.place("far"), two.place("new"), two.archive, "far")
    row = two.coordination.run(lambda c: replica(c, two.archive, "far"))
    with pytest.raises(DamagedError, match=gone):
        drop(two.coordination, two.archive, row, ["1"], places=open_store)
    two.lose("near")
    with pytest.raises(DamagedError, match=gone):
        elect(two.coordination, two.archive, "far")
    assert not (two.folder / "far").exists()


def test_what_only_the_lost_replica_had_is_set_aside_and_stays(two: Replicas) -> None:
    two.back_up("near")
    lose(two, "near")
    done = two.recover("near", source="far")
    assert done.aside == (two.backups[-1],)
    state = two.state("near")
    assert state.blocks.keys() == two.state("far").blocks.keys()
    assert state.aside.keys() == {two.backups[-1]}
    path = next(path for path in data_files(two.folder / "near") if two.backups[-1] in str(path))
    assert path.exists()
    two.sync("near")  # the entry is in the log, and its files are here: it comes back
    assert two.backups[-1] in two.state("near").blocks
    assert two.state("near").aside == {}


def test_what_was_truncated_while_it_was_lost_is_removed_there_too(two: Replicas) -> None:
    two.back_up("far")
    two.sync("near")
    lose(two, "near")
    with leading(two.open("far")) as far:
        far.add(lambda state: Change("truncation", remove=(two.backups[0],)), check=nothing, fence=None)
    done = two.recover("near", source="far")
    state = two.state("near")
    assert done.aside == ()
    assert state.removed.keys() == {two.backups[0]}  # the next vacuum has it
    assert state.blocks.keys() == two.state("far").blocks.keys()


def test_a_replica_that_was_brought_back_behind_its_own_removals_executes_them_again(two: Replicas) -> None:
    """It was ahead of the one it is made from, so that it has removed what an entry adds which it is to execute."""
    for _ in range(3):
        two.back_up("near")
    again = two.backups[-2]
    with leading(two.open("near")) as near:
        near.add(lambda state: Change("truncation", remove=(again,)), check=nothing, fence=None)
    lose(two, "near")
    assert two.recover("near", source="far").index == 0
    assert two.state("near").removed.keys() == {again}
    two.sync("near", upto=2)
    state = two.state("near")
    assert (again in state.blocks, dict(state.removed)) == (True, {})
    assert two.is_whole("near")
    assert two.sync("far").index == two.sync("near").index == 4
    assert two.state("near").blocks.keys() == two.state("far").blocks.keys()
    assert two.state("near").removed.keys() == two.state("far").removed.keys() == {again}


def test_nobody_reads_or_follows_with_a_replica_that_is_being_recovered(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(two, "far")

    def die(*given: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(recovery_claim, "take_pointer", die)
    with pytest.raises(KeyboardInterrupt):
        two.recover("far")
    monkeypatch.undo()
    with pytest.raises(DamagedError, match="is replica far, which is being recovered from another one"):
        two.state("far")
    with pytest.raises(BusyError, match="being recovered from near; if that has died, its lease ends in"):
        two.recover("far")
    two.coordination.run(lambda c: c.execute(schema.replicas.update().values(active_until=0.0)))
    two.recover("far")
    assert two.is_whole("far")


def test_a_recovery_that_somebody_else_has_begun_anew_adds_nothing(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(two, "far")
    adopt = recovery._Recovery.adopt

    def begun_anew(self: recovery._Recovery, check: object) -> tuple[str, ...]:
        monkeypatch.undo()
        place = self._closed.model_copy(update={"entry": "another"})
        self._opened().add(lambda state: Change("recovering", log=place), check=nothing, fence=None)
        return adopt(self, nothing)

    monkeypatch.setattr(recovery._Recovery, "adopt", begun_anew)
    with pytest.raises(EpochOverError, match="another process has begun to recover far meanwhile"):
        two.recover("far")


def test_nothing_is_set_aside_where_the_store_was_brought_back_meanwhile(
    three: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    three.back_up("near")
    three.sync("off")
    three.lose("near")

    def brought_back(*given: Any, **more: Any) -> FileCopier:
        put_back = copied(three)
        three.back_up("far")
        put_back()
        return FileCopier(*given, **more)

    monkeypatch.setattr(recovery, "FileCopier", brought_back)
    with pytest.raises(OldStoreError, match=r"far has executed entry 2 \(.*\), which the coordination store"):
        three.recover("near", source="off")
    assert (three.place_of("near").recovering, three.place_of("near").index) == (True, 1)


def test_a_replica_stays_lost_where_its_source_is_damaged(two: Replicas) -> None:
    lose(two, "far")
    for place in ("near", "far"):
        data_files(two.folder / place)[0].unlink()
    with pytest.raises(DamagedError, match="is missing"):
        two.recover("far")
    assert two.coordination.run(lambda c: replica(c, two.archive, "far")).is_lost


def test_a_source_that_is_lost_meanwhile_is_not_gone_on_from(three: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    lose(three, "off")
    take = recovery_claim.take_pointer

    def source_is_lost(c: Connection, acting: object, *, pointer: int) -> None:
        mark_lost(c, three.archive, "near", "rot")
        take(c, acting, pointer=pointer)  # type: ignore[arg-type]

    monkeypatch.setattr(recovery_claim, "take_pointer", source_is_lost)
    with pytest.raises(RefusedError, match="near was lost meanwhile"):
        three.recover("off", source="near")
    monkeypatch.undo()
    three.coordination.run(lambda c: c.execute(schema.replicas.update().values(active_until=0.0)))
    assert three.recover("off").source in ("far", "near")


def test_a_recovery_that_fails_can_be_tried_again_at_once(two: Replicas) -> None:
    lose(two, "far")
    shutil.move(two.folder / "near", two.folder / "away")
    for _ in range(2):
        with pytest.raises(HoldfastError, match="replica near cannot be copied from"):
            two.recover("far")
    assert not (two.folder / "near").exists()
    shutil.move(two.folder / "away", two.folder / "near")
    assert two.recover("far").source == "near"


def test_a_recovery_that_wakes_late_leaves_a_whole_replica_alone(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(two, "far")
    opened = recovery._Recovery.open_target

    def late(self: recovery._Recovery, check: Callable[[], None]) -> None:
        monkeypatch.undo()
        two.coordination.run(lambda c: c.execute(schema.replicas.update().values(active_until=0.0)))

        def another_comes_first() -> None:
            check()
            archive = Archive.open(two.place("far"), recovering=True)
            place = self._closed.model_copy(update={"entry": "another"})
            archive.add(lambda state: Change("recovering", log=place), check=nothing, fence=None)

        opened(self, another_comes_first)

    monkeypatch.setattr(recovery._Recovery, "open_target", late)
    with pytest.raises(EpochOverError, match="was changed by another process meanwhile: nothing was added"):
        two.recover("far")
    place = Archive.open(two.place("far"), recovering=True).state.log
    assert place is not None
    assert place.entry == "another"


def half_recovered(replicas: Replicas, name: str) -> None:
    """Have the archive of a replica say that its recovery was killed, which the store does not know."""
    archive = Archive.open(replicas.place(name))
    assert archive.state.log is not None
    place = archive.state.log.model_copy(update={"index": 0, "entry": "late", "recovering": True})
    archive.add(lambda state: Change("recovering", log=place), check=nothing, fence=None)


def test_a_replica_that_was_left_half_recovered_is_lost_again(two: Replicas) -> None:
    half_recovered(two, "far")
    with pytest.raises(LostReplicaError, match="was not recovered to its end"):
        two.sync("far")
    assert two.recover("far").source == "near"
    assert two.is_whole("far")


def test_a_source_that_was_left_half_recovered_is_lost_too_and_another_one_is_taken(three: Replicas) -> None:
    """The hammer found no way out: copies of the store from before a recovery that was killed know nothing of it."""
    half_recovered(three, "near")
    lose(three, "off")
    with pytest.raises(DamagedError, match=r"near is lost itself, .* not recovered to its end: run this again"):
        three.recover("off")
    assert three.recover("off").source == "far"


def is_behind(replicas: Replicas, name: str) -> None:
    """Have the store say that a replica has executed more than its archive says."""
    replicas.back_up("near")
    row = replicas.coordination.run(lambda c: replica(c, replicas.archive, name))
    replicas.change(name, pointer=row.pointer + 1)


@pytest.mark.parametrize("become", [half_recovered, is_behind])
def test_where_the_only_source_is_lost_too_one_is_to_be_elected(
    two: Replicas, become: Callable[[Replicas, str], None]
) -> None:
    become(two, "far")
    lose(two, "near")
    with pytest.raises(RefusedError, match=r"no other replica that is not lost: see .* 'holdfast replica elect'"):
        two.recover("near")
    membership.elect(two.coordination, two.archive, "near")
    assert two.recover("far").source == "near"


def test_a_source_that_cannot_be_read_is_named_with_those_to_copy_from_instead(three: Replicas) -> None:
    three.back_up("near")
    three.sync("far")
    lose(three, "off")
    shutil.rmtree(three.folder / "near")
    with pytest.raises(HoldfastError, match=r"near cannot be copied from: .*; --from far copies from another one"):
        three.recover("off", source="near")
    shutil.rmtree(three.folder / "far")
    with pytest.raises(HoldfastError, match=r"near cannot be copied from: .*; no other one can be read"):
        three.recover("off", source="near")


def test_a_source_that_vanishes_while_it_is_copied_is_named_with_those_to_copy_from_instead(
    three: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    three.back_up("near")
    three.sync("far")
    lose(three, "off")

    def vanish(*given: Any, **more: Any) -> FileCopier:
        shutil.rmtree(three.folder / "near")
        return FileCopier(*given, **more)

    monkeypatch.setattr(recovery, "FileCopier", vanish)
    with pytest.raises(HoldfastError, match=r"near cannot be copied from any more: .*; --from far copies from another"):
        three.recover("off", source="near")
    monkeypatch.undo()
    assert three.recover("off", source="far").index == 1
    assert three.is_whole("off")


def test_a_source_that_hangs_is_named_with_those_to_copy_from_instead(three: Replicas) -> None:
    lose(three, "far")
    with hanging(three, "off"), pytest.raises(HoldfastError, match=r"does not answer: .*; --from near copies from"):
        three.recover("far", source="off")
