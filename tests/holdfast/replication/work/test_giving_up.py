"""An entry whose files nobody has any more is given up, with what builds on it, and nothing else is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from holdfast.archive import Archive, Change
from holdfast.archive.format.block import Block, JoinedBlock
from holdfast.archive.format.model import Hold
from holdfast.archive.history.coverage import covered_ranges
from holdfast.archive.maintenance.abandoned_backups import why_given_up
from holdfast.common.errors import BusyError, DamagedError, RefusedError, UsageError
from holdfast.common.lsn import show_position
from holdfast.replication.log import log, quorum, schema
from holdfast.replication.log.errors import OldStoreError
from holdfast.replication.log.leader import lead
from holdfast.replication.log.replicas import replicas
from holdfast.replication.work.giving_up import give_up, prepare
from holdfast.storage import ObjectStore, open_store
from locking import LockBusy, RWLock
from tests.support.replicas.given_up import STREAM, append, changes, destroyed, ends, equal, full
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow


def test_replicas_go_on_without_an_entry_that_was_given_up(stuck: Replicas) -> None:
    done, entry = give_up(stuck.coordination, stuck.archive, 2)
    assert ([each.index for each in done.entries], entry, done.by) == ([2], 4, "far")
    assert ends(stuck) == ("0/A00", "0/A00")
    with pytest.raises(DamagedError, match="which entry 3"):
        stuck.sync("far")  # another source's, which builds on nothing that was given up
    give_up(stuck.coordination, stuck.archive, 3)
    state = equal(stuck, "far", "off")
    assert (state.ends["shop_db"], state.streams["shop_db"]) == ("0/A00", "0/A00")
    append(stuck, "far", changes("0/A00", "0/C00"))
    assert len(equal(stuck, "far", "off").blocks) == 3


def test_commits_say_why_a_backup_was_given_up(stuck: Replicas) -> None:
    known = stuck.state("far").sequence
    give_up(stuck.coordination, stuck.archive, 2)
    stuck.sync("far", upto=2)
    done, _ = give_up(stuck.coordination, stuck.archive, 3)
    equal(stuck, "far", "off")
    archive = Archive.open(stuck.place("off"))
    why = why_given_up(archive, "crm", known)
    assert why == (f"backups of crm were given up: no replica had {done.missing[0]} any more (of the update log: 3)")
    assert "backups of shop_db were given up" in why_given_up(archive, "shop_db", known)
    assert why_given_up(archive, "shop", known) == ""
    assert why_given_up(archive, "crm", archive.state.sequence) == ""


def test_changes_that_follow_are_given_up_too_up_to_a_new_beginning(three: Replicas) -> None:
    append(three, "near", full("0/A00"))
    three.sync("far")
    three.sync("off")
    gone = [append(three, "near", changes("0/A00", "0/B00")), append(three, "near", changes("0/B00", "0/C00"))]
    kept = append(three, "near", lambda block: block)  # a full backup in between
    gone.append(append(three, "near", changes("0/C00", "0/D00")))
    begun = [append(three, "near", full("0/D00")), append(three, "near", changes("0/D00", "0/F00"))]
    saved = three.folder / "saved"
    shutil.copytree(three.folder / "near", saved)
    for block in gone[:1]:
        for file in block.files():
            (saved / file.path).unlink()
    shutil.rmtree(three.folder / "near")
    shutil.move(saved, three.folder / "near")
    three.lose("near")
    done, _ = give_up(three.coordination, three.archive, 2)
    assert [each.index for each in done.entries] == [2, 3, 5]
    state = equal(three, "far", "off")
    assert {kept.id, *(block.id for block in begun)} <= state.blocks.keys()
    assert not {block.id for block in gone} & state.blocks.keys()
    assert state.streams["shop_db"] == "0/F00"
    append(three, "far", changes("0/F00", "0/F10"))
    three.recover("near")
    assert equal(three, "far", "off", "near").blocks.keys() == three.state("off").blocks.keys()


def test_ends_do_not_go_back_to_what_is_given_up(three: Replicas) -> None:
    append(three, "near", full("0/A00"))
    three.sync("far")
    append(three, "near", changes("0/A00", "0/B00"))
    failed = append(three, "near", full("0/C00"))

    def take_back(connection: sa.Connection) -> None:  # as where its quorum was not reached
        drop = log.EntryChange(kind=log.DROP, remove=(failed.id,), ends={"shop_db": ("0/B00", "0/B00")})
        index = log.append_decision(connection, three.archive, drop, by="near")
        quorum.give_up(connection, three.archive, 3, block=failed.id, source="shop_db", dropped_by=index)

    three.coordination.run(take_back)
    destroyed(three, "near")
    done, _ = give_up(three.coordination, three.archive, 2)
    assert [each.index for each in done.entries] == [2]
    assert dict(equal(three, "far", "off").streams) == {"shop_db": "0/A00"}
    append(three, "far", changes("0/A00", "0/D00"))


def test_nothing_is_given_up_where_the_store_is_an_old_copy(stuck: Replicas) -> None:
    changed = schema.line.update().where(schema.line.c.index == 1).values(entry="x")
    stuck.coordination.run(lambda c: c.execute(changed))
    with pytest.raises(OldStoreError, match="brought back from an older copy"):
        give_up(stuck.coordination, stuck.archive, 2)
    stuck.coordination.run(lambda c: c.execute(schema.archives.update().values(store="another")))
    with pytest.raises(OldStoreError, match="another store"):
        give_up(stuck.coordination, stuck.archive, 2)


def test_a_replica_that_is_half_recovered_does_not_stand_before_an_entry(three: Replicas) -> None:
    three.back_up("near")
    destroyed(three, "near")
    three.lose("off")
    half = three.place_of("far").model_copy(update={"index": 0, "entry": "half", "recovering": True})
    archive = Archive.open(three.place("far"))
    archive.add(lambda state: Change("recovering", log=half), check=nothing, fence=None)
    with pytest.raises(RefusedError, match="no replica has come to entry 0 yet"):
        prepare(three.coordination, three.archive, 1)


def test_a_full_backup_behind_what_is_given_up_leaves_the_stream_where_it_was(three: Replicas) -> None:
    append(three, "near", full("0/A00"))
    three.sync("far")
    append(three, "near", changes("0/A00", "0/B00"))
    kept = append(three, "near", lambda block: block)
    saved = {file.path: three.place("near").get(file.path) for file in kept.files()}
    destroyed(three, "near")
    for path, body in saved.items():
        three.place("off").create(path, body)
    done, _ = give_up(three.coordination, three.archive, 2)
    assert done.ends == {"shop_db": (kept.covers.to_position, "0/A00")}
    assert dict(equal(three, "far", "off").streams) == {"shop_db": "0/A00"}


def followed(position: str, end: str) -> Callable[[Block], Block]:
    """A full backup of a source whose changes are here up to a position."""
    stream = STREAM.model_copy(update={"position": position, "opened": False})
    return lambda block: block.model_copy(
        update={"covers": block.covers.model_copy(update={"to_position": end}), "stream": stream}
    )


def test_behind_a_full_backup_whose_stream_is_given_up_the_next_one_begins_anew(three: Replicas) -> None:
    append(three, "near", full("0/A00"))
    for name in ("far", "off"):
        three.sync(name)
    gone = append(three, "near", changes("0/A00", "0/B00"))
    kept = append(three, "near", followed("0/B00", "0/C00"))
    after = append(three, "near", changes("0/B00", "0/D00"))
    for file in gone.files():
        (three.folder / "near" / file.path).unlink()
    three.lose("near")
    done, _ = give_up(three.coordination, three.archive, 2)
    assert ([each.index for each in done.entries], done.ends) == ([2, 4], {"shop_db": ("0/C00", "")})
    state = equal(three, "far", "off")
    assert kept.id in state.blocks
    assert after.id not in state.blocks
    with pytest.raises(RefusedError, match="changes of shop_db from 0/A00 on do not follow what is here"):
        append(three, "far", changes("0/A00", "0/E00"))
    append(three, "far", full("0/E00"))
    append(three, "far", changes("0/E00", "0/F00"))
    state = equal(three, "far", "off")
    ends = [(show_position(each.first), show_position(each.last)) for each in covered_ranges(state, "shop_db")]
    assert ends[-3:] == [("0/A00", "0/A00"), ("0/C00", "0/C00"), ("0/E00", "0/F00")]


def test_a_full_backup_of_a_stream_that_stays_cuts_nothing_off(three: Replicas) -> None:
    append(three, "near", full("0/A00"))
    three.sync("far")
    append(three, "near", changes("0/A00", "0/B00"))
    append(three, "near", full("0/B80"))
    append(three, "near", followed("0/B80", "0/C00"))
    append(three, "near", changes("0/B80", "0/D00"))
    destroyed(three, "near")
    done = prepare(three.coordination, three.archive, 2)
    assert ([each.index for each in done.entries], done.ends) == ([2], {"shop_db": ("0/D00", "0/D00")})


def test_a_compaction_behind_what_is_given_up_moves_no_ends(three: Replicas) -> None:
    append(three, "near", full("0/A00"))
    older = append(three, "near", changes("0/A00", "0/B00"))
    three.sync("far")
    append(three, "near", changes("0/B00", "0/C00"))
    append(three, "near", full("0/E00"))
    near = three.open("near")
    near.leader_epoch = three.coordination.run(lambda c: lead(c, near.in_use()[1]))
    joined = older.model_copy(update={"id": "f" * 32, "parts": (JoinedBlock(commit=1, block=older),)})
    near.add(lambda state: Change("compaction", add=(joined,), remove=(older.id,)), check=nothing, fence=None)
    destroyed(three, "near")
    done = prepare(three.coordination, three.archive, 3)
    assert ([each.index for each in done.entries], done.ends) == ([3], {"shop_db": ("0/E00", "0/E00")})


def test_what_removes_a_block_that_is_given_up_is_given_up_too(three: Replicas) -> None:
    first = append(three, "near", lambda block: block)
    near = three.open("near")
    near.leader_epoch = three.coordination.run(lambda c: lead(c, near.in_use()[1]))
    near.add(lambda state: Change("truncation", remove=(first.id, three.backups[0])), check=nothing, fence=None)
    at = first.covers.to_time
    hold = Hold(id="h", source="shop_db", position="0/1", at=at, owner="me", reason="audit", created=at)
    near.add(lambda state: Change("hold", holds=(hold,)), check=nothing, fence=None)
    destroyed(three, "near")
    done, _ = give_up(three.coordination, three.archive, 1)
    assert [each.index for each in done.entries] == [1, 2]
    state = equal(three, "far", "off")
    assert three.backups[0] in state.blocks
    assert "h" in state.holds


def test_who_committed_it_all_the_same_takes_it_back(stuck: Replicas) -> None:
    (entry,) = stuck.coordination.run(lambda c: log.entries(c, stuck.archive, 2, most=1))
    give_up(stuck.coordination, stuck.archive, 2)
    stuck.sync("far", upto=2)
    give_up(stuck.coordination, stuck.archive, 3)
    archive = Archive.open(stuck.place("off"))  # of a process that was suspended while it had the locks
    place = stuck.place_of("off").model_copy(update={"index": 2, "entry": entry.id})
    archive.add(lambda state: entry.change.change(state, place), check=nothing, fence=None)
    for name in ("far", "off"):
        stuck.sync(name)
    assert stuck.state("off").blocks.keys() == stuck.state("far").blocks.keys()
    assert dict(stuck.state("off").streams) == dict(stuck.state("far").streams)


def test_an_entry_whose_quorum_had_succeeded_or_was_pending_is_not_waited_for_any_more(stuck: Replicas) -> None:
    for index, state in ((2, "committed"), (3, "pending")):
        entry = stuck.coordination.run(partial(log.entries, archive=stuck.archive, since=index))[0]
        block = entry.change.add[0]
        row = {
            "archive": stuck.archive, "index": index, "block": block.id, "source": block.source.name, "size": 2,
            "state": state, "deadline": 9e9, "end_before": "", "stream_before": "", "dropped_by": 0,
        }  # fmt: skip
        stuck.coordination.run(partial(sa.Connection.execute, statement=schema.quorums.insert(), parameters=row))
        give_up(stuck.coordination, stuck.archive, index)
        stuck.sync("far", upto=index)
    q = schema.quorums.c
    rows = stuck.coordination.run(
        lambda c: c.execute(sa.select(q.index, q.state, q.dropped_by).order_by(q.index)).all()
    )
    assert [tuple(row) for row in rows] == [(2, "failed", 4), (3, "failed", 5)]
    equal(stuck, "far", "off")
    stuck.back_up("far", "crm")


def test_whoever_may_have_a_file_is_waited_for(three: Replicas) -> None:
    three.back_up("near")
    shutil.move(three.folder / "near", three.folder / "away")
    waits = r"entry 1 waits for near \(there is no archive.json.*\): .* 'holdfast replica remove near --force'"
    with pytest.raises(RefusedError, match=waits):
        give_up(three.coordination, three.archive, 1)
    three.lose("near")  # who is lost is not waited for, and is asked all the same
    shutil.move(three.folder / "away", three.folder / "near")
    with pytest.raises(RefusedError, match="every file of entry 1 is at some place"):
        give_up(three.coordination, three.archive, 1)
    three.sync("far")


def test_a_file_that_is_not_what_was_written_is_at_no_place(three: Replicas) -> None:
    block = append(three, "near", lambda block: block)
    three.lose("near")
    path = three.folder / "near" / block.tables[0].files[0].path
    path.chmod(0o644)
    path.write_bytes(b"x" * path.stat().st_size)
    done = prepare(three.coordination, three.archive, 1)
    assert done.missing == (block.tables[0].files[0].path,)


def test_an_entry_that_a_replica_has_executed_is_not_given_up(three: Replicas) -> None:
    block = append(three, "near", lambda block: block)
    (three.folder / "near" / block.tables[0].files[0].path).unlink()
    with pytest.raises(RefusedError, match=r"near has executed entry 1: 'holdfast verify .*near --deep' shows"):
        prepare(three.coordination, three.archive, 1)


def test_entries_before_it_are_executed_first(stuck: Replicas) -> None:
    with pytest.raises(RefusedError, match="no replica has come to entry 2 yet: 'holdfast replica sync --all' first"):
        prepare(stuck.coordination, stuck.archive, 3)


def test_only_an_entry_that_adds_something_is_given_up_and_only_once(stuck: Replicas) -> None:
    for index in (1, 9):
        with pytest.raises((UsageError, RefusedError)):
            prepare(stuck.coordination, stuck.archive, index)
    give_up(stuck.coordination, stuck.archive, 2)
    with pytest.raises(UsageError, match="the log has no entry 2 that adds a block"):
        prepare(stuck.coordination, stuck.archive, 2)


def test_who_executes_entries_is_in_the_way(stuck: Replicas) -> None:
    with RWLock(stuck.place("off"), "replica").write(purpose="a sync"), pytest.raises(LockBusy, match="a sync"):
        give_up(stuck.coordination, stuck.archive, 2)


@pytest.mark.parametrize("values", [{"head": 9}, {"pointer": 3}])
def test_a_log_that_changes_meanwhile_is_left_alone(stuck: Replicas, values: dict[str, Any]) -> None:
    table = schema.archives if "head" in values else schema.replicas
    rows = stuck.coordination.run(lambda c: replicas(c, stuck.archive))
    entries = stuck.coordination.run(lambda c: c.execute(sa.select(schema.entries)).all())
    opened: list[str] = []

    def late(url: str) -> ObjectStore:
        opened.append(url)
        # Each was asked, and those that are not lost were locked: now they are asked again, by the log as it was.
        if len(opened) == len(rows) + sum(not row.is_lost for row in rows) + 1:
            stuck.coordination.run(lambda c: c.execute(table.update().values(**values)))
        return open_store(url)

    with pytest.raises(BusyError, match="the log of shop has changed meanwhile"):
        give_up(stuck.coordination, stuck.archive, 2, places=late)
    assert stuck.coordination.run(lambda c: c.execute(sa.select(schema.entries)).all()) == entries
