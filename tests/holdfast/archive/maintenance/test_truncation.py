"""Truncation: what stays can be restored as before, and what goes is what nothing needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.archive import Archive, Change, State
from holdfast.archive.format.block import Block
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.history.coverage import blocks_of
from holdfast.archive.history.holds import check_holds
from holdfast.archive.maintenance.hold_requests import add_hold
from holdfast.archive.maintenance.retention import parse_rules
from holdfast.archive.maintenance.truncation import TruncationPlan, plan_truncation, truncate
from holdfast.common.errors import HoldfastError, RefusedError, UsageError
from locking import LockLost
from tests.support.archives.backups import SOURCE, Backups
from tests.support.archives.truncating import check_truth, content


def follow(made: Backups, *steps: str) -> None:
    """Take steps an hour apart: `full`, or `changes` with something written before."""
    for step in steps:
        made.wait(timedelta(hours=1))
        made.write(1, 2)
        if step == "full":
            made.full()
        else:
            made.changes()


def followed(*steps: str) -> Backups:
    made = Backups()
    made.write(1, 2, 3)
    made.full(opened=True)
    follow(made, *steps)
    return made


def planned(made: Backups, *words: str, min_chains: int = 1) -> TruncationPlan:
    return plan_truncation(made.state, parse_rules(words), made.now, min_chains=min_chains)


def stays(made: Backups, *words: str, min_chains: int = 1) -> list[str]:
    """Return the ids of the blocks that a truncation leaves."""
    removed = planned(made, *words, min_chains=min_chains).removed
    return [each for each in made.state.blocks if each not in removed]


def test_what_the_newest_points_need_stays_and_the_rest_goes() -> None:
    made = followed("changes", "changes", "full", "changes", "changes")
    assert stays(made, "last=1") == ["b4", "b5", "b6"]
    assert stays(made, "last=3") == ["b4", "b5", "b6"]
    assert stays(made, "last=5") == ["b1", "b2", "b3", "b4", "b5", "b6"]
    assert stays(made, "last=1", min_chains=2) == ["b1", "b2", "b3", "b4", "b5", "b6"]


def test_a_point_in_between_leaves_a_hole_behind_it_and_keeps_no_change_block_more_than_it_needs() -> None:
    made = followed("changes", "changes", "full", "changes")
    made.wait(timedelta(days=1))
    follow(made, "changes", "full", "changes")
    made.hold(made.moment("commit:2"))
    assert stays(made, "last=1") == ["b1", "b2", "b7", "b8"]
    made.remove(*planned(made, "last=1").removed)
    assert [(point.commit, point.covered.first) for point in made.points()] == [
        (1, made.points()[0].position), (2, made.points()[0].position), (7, made.points()[2].position),
        (8, made.points()[2].position),
    ]  # fmt: skip
    check_truth(made)


def test_full_backups_that_no_changes_are_joined_to_yet_go_by_the_same_rules() -> None:
    made = followed("changes", "full", "full", "full")
    assert stays(made, "last=1") == ["b2", "b5"]  # the next changes go on from where the newest ones end
    assert stays(made, "last=2") == ["b2", "b4", "b5"]
    made.remove("b1", "b3", "b4")
    follow(made, "changes")
    assert [point.commit for point in made.points()] == [5, made.state.sequence]
    check_truth(made)


def test_a_table_that_was_begun_anew_keeps_its_own_snapshot_and_the_full_one() -> None:
    made = followed("changes")
    made.leave(2)
    follow(made, "changes")
    made.begin_anew(2)
    follow(made, "changes", "changes")
    assert stays(made, "last=1") == ["b1", "b2", "b3", "b4", "b5", "b6"]
    follow(made, "full", "changes")
    made.hold(made.moment("commit:5"))
    assert stays(made, "last=1") == ["b1", "b2", "b3", "b4", "b5", "b7", "b8"]


def test_a_table_that_was_dropped_keeps_nothing() -> None:
    made = followed("changes")
    made.drop(3)
    follow(made, "changes")
    made.full(chosen=[1])  # all but table 2, which is still there
    follow(made, "changes")
    assert stays(made, "last=1") == ["b1", "b2", "b3", "b4", "b5"]
    made.full(chosen=[1, 2])
    follow(made, "changes")
    assert stays(made, "last=1") == ["b6", "b7"]
    assert set(made.moment("latest").tables()) == {"1", "2"}


def test_a_backup_of_chosen_tables_that_stands_alone_does_not_replace_the_database() -> None:
    made = Backups()
    made.full(stream=False)
    made.full(stream=False)
    made.full(stream=False, chosen=[1])
    assert stays(made, "last=1") == ["b2", "b3"]


def test_a_gap_keeps_both_sides_apart() -> None:
    made = followed("changes")
    made.write(1)
    made.wait(timedelta(hours=1))
    made.full(opened=True)
    follow(made, "changes", "changes")
    assert stays(made, "last=1") == ["b3", "b4", "b5"]
    assert stays(made, "last=4") == ["b1", "b2", "b3", "b4", "b5"]


def test_a_block_that_stands_for_several_stays_while_one_of_them_is_needed() -> None:
    made = followed("changes", "changes", "full", "changes", "changes", "changes")
    made.join([made.state.blocks[each] for each in ("b2", "b3")])
    made.join([made.state.blocks[each] for each in ("b5", "b6")])
    made.hold(made.moment("commit:2"))
    assert stays(made, "last=1") == ["b1", "b4", "b7", "b8", "b9"]
    made.remove(*planned(made, "last=1").removed)
    assert {2, 3, 5, 6, 7} <= {point.commit for point in made.points()}
    check_truth(made)
    made.release(next(iter(made.state.holds)))
    assert stays(made, "last=1") == ["b4", "b7", "b9"]


def test_a_position_without_sequences_of_its_own_keeps_what_tells_the_next() -> None:
    made = followed("changes")
    made.write(1, 2)
    made.changes(is_cut=False, with_sequences=False)
    made.write(1, 2)
    made.changes(is_cut=False)
    made.write(1, 2)
    made.changes(is_cut=False)
    made.full(opened=True)
    held = made.moment("commit:3")
    made.hold(held)
    before = content(made, held)
    assert stays(made, "last=1") == ["b1", "b2", "b3", "b4", "b6"]
    made.remove(*planned(made, "last=1").removed)
    assert content(made, made.moment("commit:3")) == before


def test_a_moment_that_is_held_can_be_asked_for_by_its_time() -> None:
    made = followed("changes", "full", "changes", "changes", "full", "changes")
    interval, half = made.intervals()[0], timedelta(minutes=30)
    after_full = made.at(interval, made.points()[2].position + 8)
    made.hold(replace(after_full, at=made.points()[2].at - half))  # nothing was committed in between
    assert stays(made, "last=1") == ["b1", "b2", "b3", "b4", "b6", "b7"]
    made.release(next(iter(made.state.holds)))
    before_hour = made.moment("commit:4")
    made.hold(replace(before_hour, at=before_hour.at + half))
    assert stays(made, "last=1") == ["b3", "b4", "b5", "b6", "b7"]


@pytest.mark.parametrize("quiet", [(2, 3, 4), (3, 4)])
def test_a_quiet_source_keeps_the_backups_that_say_so_as_long_as_their_point(quiet: Sequence[int]) -> None:
    made = Backups()
    made.full(opened=True)
    for number in range(2, 5):
        made.wait(timedelta(hours=1))
        if number not in quiet:
            made.write(1)
        made.changes()
    newest = made.moment("commit:4")
    made.wait(timedelta(hours=1))
    made.fail_over(0x9000)
    made.full(opened=True)
    named = [point for point in made.points() if point.at == newest.at]
    if quiet == (3, 4):
        assert [point.commit for point in named] == [4]
        assert {"b1", "b2", "b4"} <= set(stays(made, "last=2"))
    assert "b4" not in stays(made, "last=1")
    made.hold(replace(newest, at=newest.at - timedelta(minutes=30)))
    assert {"b1", "b4"} <= set(stays(made, "last=1"))
    left = {each: made.state.blocks[each] for each in stays(made, "last=1")}
    check_holds(made.state, replace(made.state, blocks=left))


def test_each_source_is_truncated_by_itself(archive: Archive, block: Callable[..., Block], noon: datetime) -> None:
    for hour, source in enumerate(["a", "b", "a", "b", "b"]):
        add(archive, block(identity=f"b{hour}", source=source, at=noon + timedelta(hours=hour)))
    rules = parse_rules(["last=1"])
    now = datetime.now(UTC)
    assert plan_truncation(archive.state, rules, now).removed == ("b0", "b1", "b3")
    assert plan_truncation(archive.state, rules, now, source="b").removed == ("b1", "b3")
    with pytest.raises(UsageError, match="no backups of 'c'"):
        plan_truncation(archive.state, rules, now, source="c")
    done = truncate(archive, rules, check=lambda: None, fence="w", source="a")
    assert (done["commit"], done["blocks_removed"], set(archive.state.removed)) == (6, 1, {"b0"})
    assert (archive.commit(6).kind, archive.commit(6).fence) == ("truncation", "w")
    assert truncate(archive, rules, check=lambda: None, fence="w", source="a")["commit"] is None
    assert archive.state.sequence == 6


def add(archive: Archive, added: Block) -> None:
    archive.add(lambda state: Change(kind="backup", add=(added,)), check=lambda: None, fence=None)


def test_an_archive_without_backups_has_nothing_to_truncate(archive: Archive) -> None:
    done = truncate(archive, parse_rules(["last=1"]), check=lambda: None, fence=None)
    assert (done["commit"], done["sources"], archive.state.sequence) == (None, [], 0)


def test_a_hold_made_meanwhile_is_planned_in(archive: Archive, block: Callable[..., Block], noon: datetime) -> None:
    for hour in range(3):
        add(archive, block(identity=f"b{hour}", position=f"0/{hour}00", at=noon + timedelta(hours=hour)))
    other = Archive.open(archive.store)
    asked: list[str] = []

    def check() -> None:
        if not asked:
            asked.append("once")
            add_hold(other, None, "commit:1", reason="an audit", owner="me", check=lambda: None)

    done = truncate(archive, parse_rules(["last=1"]), check=check, fence=None)
    assert (done["commit"], set(archive.state.blocks)) == (5, {"b0", "b2"})


def test_the_lock_is_looked_at_before_anything_is_removed(
    archive: Archive, block: Callable[..., Block], noon: datetime
) -> None:
    for hour in range(2):
        add(archive, block(at=noon + timedelta(hours=hour)))

    def lost() -> None:
        raise LockLost("lost")

    with pytest.raises(LockLost):
        truncate(archive, parse_rules(["last=1"]), check=lost, fence=None)
    assert Archive.open(archive.store).state.sequence == 2


@pytest.mark.parametrize(("late", "refused"), [(timedelta(seconds=61), True), (timedelta(seconds=59), False)])
def test_a_clock_that_was_set_back_is_refused(late: timedelta, refused: bool) -> None:
    made = followed("changes")
    rules = parse_rules(["within=1h"])
    if refused:
        with pytest.raises(RefusedError, match="set back, or ran ahead before"):
            plan_truncation(made.state, rules, made.now - late)
    else:
        assert plan_truncation(made.state, rules, made.now - late).sources


def test_bytes_are_those_of_files_that_nobody_names_any_more() -> None:
    made = followed("changes")
    first, second = made.state.blocks["b1"].block, made.state.blocks["b2"].block
    assert (first.size, second.size) == (307, 23)
    shared = made.full(stream=False).model_copy(update={"catalog": first.catalog})
    assert planned(made, "last=1").size == 307
    blocks = {**made.state.blocks, shared.id: Placed(shared, 3)}
    state = State(sequence=3, blocks=blocks, streams=made.state.streams, at=made.now)
    plan = plan_truncation(state, parse_rules(["last=1"]), made.now)
    assert (plan.removed, plan.size) == (("b1",), 300)
    # Once the block it was stored with is gone, the last one that names a file takes it along.
    del blocks["b1"]
    newest = made.full(stream=False)
    blocks[newest.id] = Placed(newest, 4)
    plan = plan_truncation(State(sequence=4, blocks=blocks, at=made.now), parse_rules(["last=1"]), made.now)
    assert (plan.removed, plan.size) == (("b3",), 300 + 7)


def test_bytes_of_tables_that_a_newer_snapshot_shares_stay() -> None:
    made = followed("changes", "changes")
    synthetic = made.consolidate(blocks_of(made.state, SOURCE)[2])
    first = made.state.blocks["b1"].block
    tables = (first.tables[0], *synthetic.tables[1:])
    blocks = {**made.state.blocks, "b4": Placed(synthetic.model_copy(update={"tables": tables}), 4)}
    plan = plan_truncation(replace(made.state, blocks=blocks), parse_rules(["last=1"]), made.now)
    assert (plan.removed, plan.size) == (("b1", "b2"), 207 + made.state.blocks["b2"].size)


def test_a_plan_that_would_lose_what_is_to_stay_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = followed("changes", "full", "changes")
    monkeypatch.setattr("holdfast.archive.history.coverage.Chain.needed", lambda chain, kept: {"b3"})
    with pytest.raises(HoldfastError, match=r"would lose shop_db at .*, which is to stay: nothing was removed"):
        planned(made, "last=4")


def test_a_plan_by_which_a_hold_would_lose_its_point_is_refused_when_it_is_made() -> None:
    made = followed("changes", "full", "changes")
    hold = made.hold(made.moment("commit:2"))
    with pytest.MonkeyPatch().context() as patch:
        patch.setattr("holdfast.archive.maintenance.retention.standing", lambda found, hold: (None, None))
        with pytest.raises(RefusedError, match=f"this would remove what a hold keeps: .*{hold.id}"):
            planned(made, "last=1")
    assert "b2" in stays(made, "last=1")


def test_every_point_tells_why_it_stays() -> None:
    made = followed("changes", "changes", "full", "changes")
    hold = made.hold(made.moment("commit:2"))
    (source,) = planned(made, "last=1").details()["sources"]
    assert [(each["commit"], each["stays"], each["why"]) for each in source["points"]] == [
        (1, True, []),
        (2, True, [f"hold {hold.id}"]),
        (3, False, []),
        (4, True, ["last chain"]),
        (5, True, ["last=1", "last chain"]),
    ]
    assert (source["points_kept"], source["points_removed"], source["blocks_removed"]) == (4, 1, 1)
    assert [len(source[f"restorable_{when}"]) for when in ("before", "after")] == [1, 2]
