"""An entry whose files nobody has any more is given up, with what builds on it, and nothing else is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from holdfast.archive import Archive, Change
from holdfast.archive.given_up import why_given_up
from holdfast.archive.model import Block, Coverage, Hold, Part, Stream
from holdfast.archive.points import intervals
from holdfast.archive.state import State
from holdfast.errors import BusyError, DamagedError, HoldfastError, RefusedError, UsageError
from holdfast.position import show_position
from holdfast.replication import giving_up, log, quorum, schema, upkeep
from holdfast.replication.errors import OldStoreError
from holdfast.replication.giving_up import GAP_AFTER, give_up, give_up_in_time, prepare
from holdfast.replication.leader import lead
from holdfast.replication.replica import Synced
from holdfast.replication.replicas import remove, replicas
from holdfast.replication.status import status
from holdfast.replication.upkeep import sync_replica
from locking import LockBusy, RWLock
from locking.store import StoreUnavailable
from tests.support.replicated import Replicas, made_backup, nothing

STREAM = Stream(slot="s", publication="s", publication_oid=1, position="", opened=True)


def append(given: Replicas, name: str, make: Callable[[Block], Block], source: str = "shop_db") -> Block:
    """Append a made-up backup through a replica."""
    archive = given.open(name)
    _, plan = made_backup(archive.store, source)
    (block,) = plan(archive.state).add
    block = make(block)
    archive.add(
        lambda state: Change("backup", add=(block,), expected_ends={source: state.ends.get(source)}),
        check=nothing,
        fence=None,
    )
    return block


def full(end: str) -> Callable[[Block], Block]:
    """A full backup that begins to follow its source."""
    return lambda block: block.model_copy(
        update={
            "covers": block.covers.model_copy(update={"to_position": end}),
            "stream": STREAM.model_copy(update={"position": end}),
        }
    )


def changes(start: str, end: str) -> Callable[[Block], Block]:
    """Changes from one position to another."""
    return lambda block: block.model_copy(
        update={
            "kind": "changes",
            "covers": Coverage(
                from_position=start, to_position=end, from_time=block.covers.from_time, to_time=block.covers.to_time
            ),
            "stream": STREAM.model_copy(update={"position": end, "opened": False}),
        }
    )


def ends(given: Replicas, source: str = "shop_db") -> log.Ends:
    return given.coordination.run(lambda c: log.ends_of(c, given.archive, source))


def destroyed(given: Replicas, name: str) -> None:
    """The place of a replica is gone, and it was forgotten."""
    shutil.rmtree(given.folder / name)
    given.coordination.run(lambda c: remove(c, given.archive, name, force=True))


def equal(given: Replicas, *names: str) -> State:
    """Sync replicas; they are equal and whole then."""
    for name in names:
        given.sync(name)
    states = [given.state(name) for name in names]
    assert all(given.is_whole(name) for name in names)
    assert len({frozenset(state.blocks) for state in states}) == 1
    for source in states[0].ends:
        assert {(state.ends.get(source), state.streams.get(source)) for state in states} == {
            (states[0].ends.get(source), states[0].streams.get(source))
        }
        assert ends(given, source) == (states[0].ends.get(source, ""), states[0].streams.get(source, ""))
    return states[0]


@pytest.fixture
def stuck(three: Replicas) -> Replicas:
    """Replicas `far` and `off` that cannot go beyond entry 2, which only `near` had."""
    append(three, "near", full("0/A00"))
    three.sync("far")
    three.sync("off")
    append(three, "near", changes("0/A00", "0/B00"))
    three.back_up("near", "crm")
    destroyed(three, "near")
    for name in ("far", "off"):
        with pytest.raises(DamagedError, match=r"no replica could give .*, which entry 2"):
            three.sync(name)
    return three


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
        index = log.append_drop(connection, three.archive, drop, by="near")
        quorum.give_up(connection, three.archive, 3, block=failed.id, source="shop_db", dropped_by=index)

    three.coordination.run(take_back)
    destroyed(three, "near")
    done, _ = give_up(three.coordination, three.archive, 2)
    assert [each.index for each in done.entries] == [2]
    assert dict(equal(three, "far", "off").streams) == {"shop_db": "0/A00"}
    append(three, "far", changes("0/A00", "0/D00"))


def test_nothing_is_given_up_where_the_store_is_an_old_copy(stuck: Replicas) -> None:
    changed = schema.entries.update().where(schema.entries.c.index == 1).values(entry="x")
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
    ends = [(show_position(each.first), show_position(each.last)) for each in intervals(state, "shop_db")]
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
    joined = older.model_copy(update={"id": "f" * 32, "parts": (Part(commit=1, block=older),)})
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
def test_a_log_that_changes_meanwhile_is_left_alone(
    stuck: Replicas, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any]
) -> None:
    write = giving_up._write

    def late(connection: sa.Connection, planned: giving_up.GivingUp) -> int:
        table = schema.archives if "head" in values else schema.replicas
        connection.execute(table.update().values(**values))
        return write(connection, planned)

    monkeypatch.setattr(giving_up, "_write", late)
    with pytest.raises(BusyError, match="the log of shop has changed meanwhile"):
        give_up(stuck.coordination, stuck.archive, 2)
    assert prepare(stuck.coordination, stuck.archive, 2).head == 3


def known_for(given: Replicas, index: int, time: timedelta) -> None:
    """Let it have been known for some time that nobody has the files of an entry."""
    m = schema.missing.c
    update = schema.missing.update().where(m.index == index).values(since=m.since - time.total_seconds())
    assert given.coordination.run(lambda c: c.execute(update).rowcount) == 1


def nobody_looked_for(given: Replicas, time: timedelta) -> None:
    """Let some time pass in which no replica was synced."""
    m, seconds = schema.missing.c, time.total_seconds()
    update = schema.missing.update().values(since=m.since - seconds, seen=m.seen - seconds)
    given.coordination.run(lambda c: c.execute(update))


def sync(given: Replicas, name: str, gap_after: timedelta | None = GAP_AFTER) -> Synced:
    (row,) = [row for row in given.coordination.run(lambda c: replicas(c, given.archive)) if row.name == name]
    return sync_replica(given.coordination, given.archive, row, wait=0, gap_after=gap_after)


def missing(given: Replicas) -> list[int]:
    (found,) = given.coordination.run(lambda c: status(c, given.archive))
    return [index for index, _ in found.missing]


def test_a_sync_gives_up_by_itself_what_nobody_has_had_for_long(stuck: Replicas) -> None:
    with pytest.raises(DamagedError, match=r"which entry 2 .*: it is given up by itself by a sync in 24\.0 h"):
        sync(stuck, "far")
    assert missing(stuck) == [2]
    known_for(stuck, 2, timedelta(hours=23))
    with pytest.raises(DamagedError, match=r"by a sync in 1\.0 h"):
        sync(stuck, "off")
    known_for(stuck, 2, timedelta(hours=1))
    with pytest.raises(DamagedError, match=r"^entries 2 are given up: .*; no .* which entry 3 .* in 24\.0 h"):
        sync(stuck, "far")  # each has a time of its own
    assert missing(stuck) == [3]
    known_for(stuck, 3, GAP_AFTER)
    done = sync(stuck, "off")
    assert done.given_up == (3,)
    assert missing(stuck) == []
    state = equal(stuck, "far", "off")
    assert (state.ends["shop_db"], state.streams["shop_db"]) == ("0/A00", "0/A00")


def test_nothing_is_given_up_while_somebody_who_may_have_it_cannot_be_asked(three: Replicas) -> None:
    append(three, "near", full("0/A00"))
    three.sync("far")
    append(three, "near", changes("0/A00", "0/B00"))
    destroyed(three, "near")
    with pytest.raises(DamagedError, match="which entry 2"):
        sync(three, "far")
    off = three.folder / "off"
    off.rename(three.folder / "away")
    known_for(three, 2, 2 * GAP_AFTER)
    with pytest.raises(DamagedError, match=r"It is not given up by itself: entry 2 waits for off \("):
        sync(three, "far")
    assert missing(three) == []
    (three.folder / "away").rename(off)
    with pytest.raises(DamagedError, match=r"in 24\.0 h"):
        sync(three, "far")  # the time begins anew
    assert ends(three) == ("0/B00", "0/B00")


@pytest.mark.parametrize("whole", [True, False])
def test_files_that_turn_up_after_all_are_used_if_they_are_what_was_written(three: Replicas, whole: bool) -> None:
    append(three, "near", full("0/A00"))
    three.sync("far")
    block = append(three, "near", changes("0/A00", "0/B00"))
    found = {file.path: three.place("near").get(file.path) for file in block.files()}
    destroyed(three, "near")
    with pytest.raises(DamagedError, match=r"in 24\.0 h"):
        sync(three, "far")
    known_for(three, 2, GAP_AFTER)
    for path, content in found.items():
        with three.place("off").open_write(path) as file:
            file.write(content if whole else bytes(len(content)))
    done = sync(three, "far")
    assert done.given_up == (() if whole else (2,))
    assert (block.id in equal(three, "far", "off").blocks) is whole
    assert missing(three) == []


def test_only_a_person_gives_up_where_no_time_is_said(stuck: Replicas) -> None:
    with pytest.raises(DamagedError, match="which entry 2") as raised:
        sync(stuck, "far", gap_after=None)
    assert "by itself" not in str(raised.value)
    assert missing(stuck) == []


def test_a_sync_goes_on_where_another_one_has_given_it_up_meanwhile(
    stuck: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    def others_first(*arguments: Any, **named: Any) -> tuple[timedelta, tuple[int, ...]]:
        for index in (2, 3):
            give_up(stuck.coordination, stuck.archive, index)
            if index == 2:
                stuck.sync("off", upto=2)
        return give_up_in_time(*arguments, **named)

    monkeypatch.setattr(upkeep, "give_up_in_time", others_first)
    assert sync(stuck, "far").given_up == ()
    assert equal(stuck, "far", "off").ends["shop_db"] == "0/A00"


def test_what_builds_on_it_is_told_too(three: Replicas) -> None:
    append(three, "near", full("0/A00"))
    three.sync("far")
    append(three, "near", changes("0/A00", "0/B00"))
    append(three, "near", changes("0/B00", "0/C00"))
    destroyed(three, "near")
    assert sync(three, "far", gap_after=timedelta()).given_up == (2, 3)


@pytest.fixture
def waiting(three: Replicas) -> Replicas:
    """Replica `near` is lost, and the others know for an hour less than it takes that nobody has entry 2."""
    append(three, "near", full("0/A00"))
    three.sync("far")
    three.sync("off")
    append(three, "near", changes("0/A00", "0/B00"))
    three.lose("near")
    (three.folder / "near" / "data").rename(three.folder / "data")
    with pytest.raises(DamagedError, match=r"which entry 2 .* in 24\.0 h"):
        sync(three, "far")
    known_for(three, 2, GAP_AFTER - timedelta(hours=1))
    return three


def comes_back(given: Replicas) -> None:
    (given.folder / "data").rename(given.folder / "near" / "data")


def test_the_time_is_forgotten_once_somebody_has_executed_the_entry(waiting: Replicas) -> None:
    comes_back(waiting)
    assert sync(waiting, "far").files > 0
    shutil.rmtree(waiting.folder / "near" / "data")
    destroyed(waiting, "far")
    with pytest.raises(DamagedError, match=r"which entry 2 .* in 24\.0 h"):
        sync(waiting, "off")


def test_a_lost_replica_that_cannot_be_read_lets_the_time_begin_anew(waiting: Replicas) -> None:
    (waiting.folder / "near").rename(waiting.folder / "away")
    with pytest.raises(DamagedError, match=r"by itself: entry 2 waits for near \("):
        sync(waiting, "far")
    assert missing(waiting) == []
    give_up(waiting.coordination, waiting.archive, 2)  # a person may
    assert sync(waiting, "far").given_up == ()


def test_a_store_that_does_not_answer_lets_the_time_begin_anew(
    waiting: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(store: Any, files: Any) -> Any:
        raise StoreUnavailable("timed out")

    with monkeypatch.context() as patch:
        patch.setattr(giving_up, "missing_files", silent)
        with pytest.raises(DamagedError, match="by itself: timed out"):
            sync(waiting, "far")
    assert missing(waiting) == []


def test_the_time_in_which_nobody_looked_does_not_count(waiting: Replicas) -> None:
    nobody_looked_for(waiting, GAP_AFTER + timedelta(hours=1))
    with pytest.raises(DamagedError, match=r"which entry 2 .* in 24\.0 h"):
        sync(waiting, "far")
    nobody_looked_for(waiting, GAP_AFTER - timedelta(hours=1))
    with pytest.raises(DamagedError, match=r"which entry 2 .* in 1\.0 h"):
        sync(waiting, "off")


def test_who_has_executed_it_by_the_store_is_not_taken_for_one_without_it(three: Replicas) -> None:
    append(three, "near", full("0/A00"))
    three.sync("far")
    three.sync("off")
    older = three.folder / "older"
    shutil.copytree(three.folder / "near", older)
    append(three, "near", changes("0/A00", "0/B00"))
    (three.folder / "near").rename(three.folder / "newer")
    older.rename(three.folder / "near")
    with pytest.raises(RefusedError, match="near has executed entry 2"):
        give_up(three.coordination, three.archive, 2)
    with pytest.raises(HoldfastError):
        sync(three, "far")
    assert missing(three) == []


def test_who_works_on_a_replica_is_waited_for_and_the_time_goes_on(waiting: Replicas) -> None:
    known_for(waiting, 2, timedelta(hours=1))
    with RWLock(waiting.place("off"), "replica").write(purpose="a sync"), pytest.raises(LockBusy):
        sync(waiting, "far")
    assert sync(waiting, "far").given_up == (2,)
