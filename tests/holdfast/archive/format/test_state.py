"""The state of an archive: what commits make of it, and which changes it does not take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive.format.block import Block, Coverage, JoinedBlock, Stream
from holdfast.archive.format.model import Adopted, ArchiveCommit, Hold, LogPlace
from holdfast.archive.format.state import Change, State, check_readable, check_writable, stream_end, validate
from holdfast.archive.format.versions import READS, WRITES, Versions
from holdfast.common.errors import DamagedError, RefusedError, UsageError

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLACE = LogPlace(store="log", replica="near", index=4, base=10, entry="e4")


def full(name: str, position: str = "0/100", *, opened: bool = False) -> Block:
    stream = Stream(slot="s", position=position, opened=opened, publication="s", publication_oid=1)
    return make_block(identity=name, position=position).model_copy(update={"stream": stream})


def changes(name: str, since: str, upto: str) -> Block:
    covers = Coverage(from_position=since, to_position=upto, from_time=NOON, to_time=NOON)
    return full(name, since).model_copy(update={"kind": "changes", "covers": covers})


def hold(name: str) -> Hold:
    return Hold(id=name, source="shop_db", position="0/100", at=NOON, owner="ann", reason="audit", created=NOON)


def commit(state: State, **more: Any) -> ArchiveCommit:
    """Return a commit that follows a state."""
    number = state.sequence + 1
    told = {"kind": "backup", "format": 2, "min_reader": 2, "min_writer": 2, "fence": None, "writer": "test"}
    at = NOON + timedelta(days=number)
    given = {"sequence": number, "id": f"c{number}", "parent": state.tip, "committed_at": at, **told, **more}
    return ArchiveCommit.model_validate(given)


def after(state: State, *each: dict[str, Any]) -> State:
    for more in each:
        state = state.after([commit(state, **more)])
    return state


def add(*blocks: Block, **more: Any) -> dict[str, Any]:
    return {"add": blocks, **more}


BEGUN = State.begun(2)
FOLLOWED = after(BEGUN, add(full("a", opened=True)), add(changes("b", "0/100", "0/200")))


def test_no_changes_follow_those_of_a_source_that_was_removed() -> None:
    gone = after(FOLLOWED, {"kind": "truncation", "remove": ("a", "b")})
    assert (dict(gone.ends), dict(gone.streams)) == ({}, {})
    with pytest.raises(RefusedError, match="do not follow what is here, which ends at None"):
        validate(gone, Change(kind="backup", add=(changes("c", "0/200", "0/300"),)))
    some = after(FOLLOWED, {"kind": "truncation", "remove": ("b",)})
    assert (dict(some.ends), dict(some.streams)) == ({"shop_db": "0/200"}, {"shop_db": "0/200"})


def test_a_state_says_which_commit_it_is_of_and_what_may_use_it() -> None:
    state = after(BEGUN, add(full("a"), format=2, min_reader=3, min_writer=2))
    assert (state.sequence, state.tip, state.at) == (1, "c1", NOON + timedelta(days=1))
    assert (state.format, state.min_reader, state.min_writer) == (2, 3, 2)
    assert (BEGUN.sequence, dict(BEGUN.blocks)) == (0, {})


@pytest.mark.parametrize("wrong", [{"sequence": 4}, {"sequence": 2}, {"parent": "c1"}, {"parent": None}])
def test_a_commit_that_does_not_follow_is_damage(wrong: dict[str, Any]) -> None:
    with pytest.raises(DamagedError, match=f"broken at {wrong.get('sequence', 3)}: its parent is"):
        FOLLOWED.after([commit(FOLLOWED, **wrong)])


def test_a_commit_that_removes_what_is_not_there_is_damage() -> None:
    with pytest.raises(DamagedError, match="commit 3 removes block x, which is not in the archive"):
        after(FOLLOWED, {"remove": ("x",)})


def test_what_was_removed_waits_for_its_vacuum_and_is_known_by_both_commits() -> None:
    state = after(FOLLOWED, {"remove": ("b",)})
    gone = state.removed["b"]
    assert (gone.source, gone.added, gone.removed, gone.at) == ("shop_db", 2, 3, NOON + timedelta(days=3))
    assert set(state.blocks) == {"a"}
    assert dict(after(state, {"vacuumed": ("b",)}).removed) == {}


def test_what_is_put_aside_is_no_part_of_the_archive_and_waits_for_no_vacuum() -> None:
    state = after(FOLLOWED, {"aside": ("b",)})
    assert (set(state.blocks), set(state.removed), set(state.aside)) == ({"a"}, set(), {"b"})
    assert dict(after(state, add(changes("b", "0/200", "0/300"))).aside) == {}


def test_holds_come_and_go() -> None:
    state = after(BEGUN, {"holds": (hold("h1"), hold("h2"))}, {"released": ("h1",)})
    assert set(state.holds) == {"h2"}


def test_a_backup_moves_the_end_of_its_source_and_changes_move_that_of_its_stream() -> None:
    assert (FOLLOWED.ends, FOLLOWED.streams) == ({"shop_db": "0/200"}, {"shop_db": "0/200"})
    later = after(FOLLOWED, add(full("c", "0/300")))
    # A snapshot that opens no stream says nothing of how far changes have come.
    assert (later.ends, later.streams) == ({"shop_db": "0/300"}, {"shop_db": "0/200"})


def test_blocks_that_were_made_of_others_move_no_end() -> None:
    part = JoinedBlock(commit=2, block=changes("b", "0/100", "0/200"))
    joined = changes("j", "0/100", "0/180").model_copy(update={"parts": (part,)})
    made = full("m", "0/180").model_copy(update={"after": 2})
    state = after(FOLLOWED, add(joined), add(made))
    assert (state.ends, state.streams) == (FOLLOWED.ends, FOLLOWED.streams)


@pytest.mark.parametrize(
    ("block", "end"),
    [
        (changes("b", "0/100", "0/200"), "0/200"),
        (full("a", opened=True), "0/100"),
        (full("a"), None),
        (make_block(), None),
    ],
)
def test_only_changes_and_what_opens_a_stream_say_where_it_stands(block: Block, end: str | None) -> None:
    assert stream_end(block) == end


def test_blocks_of_a_replica_are_numbered_by_the_log_and_others_by_their_commit() -> None:
    assert FOLLOWED.blocks["b"].number == 2
    of_log = after(FOLLOWED, add(full("c", "0/300"), log=PLACE))
    assert (of_log.blocks["c"].number, of_log.blocks["c"].commit) == (14, 3)
    # Nobody knows where the log of an older archive began.
    assert after(FOLLOWED, add(full("c"), log=PLACE.model_copy(update={"base": 0}))).blocks["c"].number == 3


def test_what_is_adopted_is_numbered_and_stands_as_at_the_other_replica() -> None:
    other = Adopted(ends={"shop_db": "0/900"}, streams={"shop_db": "0/800"}, numbers={"a": 21, "c": 22})
    state = after(FOLLOWED, add(full("c", "0/300"), adopted=other, aside=("b",)))
    assert {name: placed.number for name, placed in state.blocks.items()} == {"a": 21, "c": 22}
    assert (state.ends, state.streams) == (other.ends, other.streams)


def test_a_commit_that_says_nothing_of_the_log_leaves_the_replica_where_it_stood() -> None:
    state = after(BEGUN, add(full("a"), log=PLACE), {"holds": (hold("h"),)})
    assert state.log == PLACE


def test_the_newest_block_of_a_run_ends_it_only_where_it_is_a_full_backup() -> None:
    run = {"run": "r7"}
    first, second = (full(name, at).model_copy(update=run) for name, at in (("a", "0/100"), ("b", "0/200")))
    state = after(BEGUN, add(first), add(second))
    newest = state.finished_by("r7")
    assert newest is not None
    assert newest.id == "b"
    assert state.finished_by("r8") is None
    for more in (changes("c", "0/200", "0/300"), full("c", "0/300").model_copy(update={"supplement": True})):
        going_on = after(state, add(more.model_copy(update=run)))
        assert going_on.of_run("r7") == going_on.blocks["c"]
        assert going_on.finished_by("r7") is None


def test_an_archive_is_opened_as_far_as_its_commits_can_be_read() -> None:
    def damaged() -> Iterator[ArchiveCommit]:
        yield commit(FOLLOWED, add=(full("c", "0/300"),))
        raise DamagedError("commit 4 is another")

    state = FOLLOWED.before_damage(damaged())
    assert (state.sequence, set(state.blocks), state.cut_off) == (3, {"a", "b", "c"}, "commit 4 is another")
    assert FOLLOWED.before_damage([commit(FOLLOWED)]).cut_off == ""


def test_a_commit_that_does_not_follow_ends_what_can_be_read_without_a_trace() -> None:
    wrong = commit(FOLLOWED, parent="x", remove=("a",))
    state = FOLLOWED.before_damage([wrong])
    assert (state.sequence, state.blocks) == (2, FOLLOWED.blocks)
    assert "the commit chain is broken at 3" in state.cut_off


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Change("migration", format=2), "has format 2 now: it cannot be lifted to 2"),
        (Change("truncation", remove=("x",)), "block x is no longer in the archive: plan again"),
        (Change("repair", aside=("x",)), "block x is no longer in the archive: plan again"),
        (Change("vacuum", abandoned=("a",)), "block a is in the archive: it cannot be abandoned"),
        (Change("vacuum", vacuumed=("a",)), "block a was not removed: its files are needed"),
        (Change("hold", released=("h",)), "there is no hold h"),
        (Change("backup", add=(full("a"),)), "block a is in the archive already, or was"),
        (Change("backup", add=(changes("c", "0/180", "0/300"),)), "from 0/180 on do not follow .* ends at 0/200"),
        (Change("backup", expected_ends={"shop_db": "0/100"}), r"its end is 0/200, this one started from 0/100\)"),
        (Change("backup", expected_ends={"shop_db": None}), "this one started from None"),
    ],
)
def test_a_change_that_the_state_does_not_take_is_refused(change: Change, said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        validate(FOLLOWED, change)


def test_what_follows_is_taken() -> None:
    validate(FOLLOWED, Change("backup", add=(changes("c", "0/200", "0/300"),), expected_ends={"shop_db": "0/200"}))
    validate(FOLLOWED, Change("backup", expected_ends={"other": None}))
    validate(FOLLOWED, Change("migration", format=3))


def test_a_block_that_was_removed_or_abandoned_does_not_come_back() -> None:
    state = after(FOLLOWED, {"remove": ("b",)}, {"abandoned": ("c",)})
    with pytest.raises(RefusedError, match="in the archive already, or was"):
        validate(state, Change("backup", add=(changes("b", "0/200", "0/300"),)))
    with pytest.raises(RefusedError, match="was abandoned: this run was taken for dead"):
        validate(state, Change("backup", add=(full("c"),)))


def test_a_replica_that_was_made_anew_may_meet_an_entry_once_more() -> None:
    state = after(FOLLOWED, {"remove": ("b",), "log": PLACE})
    again = changes("b", "0/200", "0/300")
    validate(state, Change("backup", add=(again,), log=PLACE.model_copy(update={"index": 5, "entry": "e5"})))


REPLICA = after(FOLLOWED, {"log": PLACE})


@pytest.mark.parametrize(
    "change",
    [
        Change("backup", add=(full("c"),)),
        Change("truncation", remove=("a",)),
        Change("hold", holds=(hold("h"),)),
        Change("backup", add=(full("c"),), log=PLACE.model_copy(update={"entry": ""})),
        Change("backup", add=(full("c"),), log=PLACE.model_copy(update={"recovering": True})),
    ],
)
def test_what_all_replicas_are_to_have_goes_through_their_log(change: Change) -> None:
    with pytest.raises(UsageError, match="this is replica near of a replicated archive"):
        validate(REPLICA, change)


def test_a_replica_may_do_alone_what_the_others_need_not_know() -> None:
    validate(after(REPLICA, {"remove": ("b",)}), Change("vacuum", vacuumed=("b",)))


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({}, {"index": 6}),
        ({}, {"index": 4}),
        ({}, {"index": 5, "store": "another"}),
        ({"recovering": True}, {"index": 5}),
    ],
)
def test_a_replica_follows_its_log_entry_by_entry(was: dict[str, Any], now: dict[str, Any]) -> None:
    state = replace(REPLICA, log=PLACE.model_copy(update=was))
    with pytest.raises(RefusedError, match=r"stands at entry 4 of log log.*does not follow"):
        validate(state, Change("backup", log=PLACE.model_copy(update={"entry": "e", **now})))


@pytest.mark.parametrize(
    ("log", "executes"),
    [
        (None, False),
        (PLACE, True),
        (PLACE.model_copy(update={"entry": ""}), False),
        (PLACE.model_copy(update={"recovering": True}), False),
    ],
)
def test_only_a_change_of_an_entry_executes_one(log: LogPlace | None, executes: bool) -> None:
    assert Change("backup", log=log).executes_entry is executes


def test_a_newer_release_is_asked_for_where_an_archive_needs_one() -> None:
    check_readable(Versions(format=2, min_reader=READS), "archive.json")
    with pytest.raises(UsageError, match=rf"archive.json needs a reader of format {READS + 1}; .* Upgrade holdfast"):
        check_readable(Versions(format=9, min_reader=READS + 1), "archive.json")
    check_writable(replace(BEGUN, min_writer=WRITES))
    with pytest.raises(UsageError, match=f"needs a writer of format {WRITES + 1}"):
        check_writable(replace(BEGUN, min_writer=WRITES + 1))
