"""Truncations of histories that nobody thought of: whatever is to stay is restored as before."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.archive.history.coverage import blocks_of, chains, stream_tip, to_of
from holdfast.archive.history.holds import standing
from holdfast.archive.history.restore_points import RestorePoint
from holdfast.archive.maintenance.retention import Rules, parse_rules
from holdfast.archive.maintenance.truncation import plan_truncation
from tests.support.archives.backups import SOURCE, Backups
from tests.support.archives.truncating import check_truth, content, positions
from tests.support.generator.trials import tiered

pytestmark = pytest.mark.slow

RULES = ["last=1", "last=3", "hourly=2", "daily=2", "weekly=1", "monthly=2", "yearly=1", "within=1d", "within=9d"]


def expected(points: list[RestorePoint], rules: Rules, now: datetime) -> set[tuple[datetime, int]]:
    """Return the moments and positions that rules keep, said as simply as can be."""
    names = {
        "hourly": "%Y-%m-%d %H", "daily": "%Y-%m-%d", "weekly": "%G-%V", "monthly": "%Y-%m", "yearly": "%Y",
    }  # fmt: skip
    found: set[tuple[datetime, int]] = set()
    for is_whole in (True, False):
        mine = [point for point in points if point.covered.whole is is_whole]
        for name, count in rules.counts.items():
            newest = {point.at.strftime(names.get(name, f"{point.at}{point.commit}")): point for point in mine}
            found |= {(point.at, point.position) for point in list(newest.values())[-count:]}
    return found | {(point.at, point.position) for point in points if rules.window and point.at >= now - rules.window}


def check_truncation(made: Backups, rules: Rules, min_chains: int) -> None:
    """Truncate, and compare all that is to stay with what it was before."""
    points = made.points()
    wanted = expected(points, rules, made.now)
    since = made.now - rules.window if rules.window else None
    before: dict[tuple[datetime, int], dict[str, Any]] = {}
    for interval, position in positions(made):
        moment = made.at(interval, position)
        is_in_window = since is not None and moment.at >= since
        if is_in_window or (moment.at, position) in wanted or any(p.position == position for p in points):
            before[moment.at, position] = content(made, moment)
        if is_in_window:
            wanted.add((moment.at, position))
    held = {
        hold.id: content(made, made.at(interval, int(hold.position.split("/")[1], 16)))
        for hold in made.state.holds.values()
        if (interval := standing(made.intervals(), hold)[1])
    }
    held_by = {hold.id: standing(made.intervals(), hold)[0] for hold in made.state.holds.values()}
    latest = content(made, made.moment("latest"))
    tip = stream_tip(made.state, SOURCE)
    plan = plan_truncation(made.state, rules, made.now, min_chains=min_chains)
    made.remove(*plan.removed)

    after = {}
    for interval, position in positions(made):
        moment = made.at(interval, position)
        after[moment.at, position] = (interval, moment)
    missing = [each for each in wanted if each not in after]
    assert not missing
    for at, position in wanted:
        assert content(made, after[at, position][1]) == before[at, position]
    for hold in made.state.holds.values():
        sure, interval = standing(made.intervals(), hold)
        assert sure >= held_by[hold.id]
        assert interval is not None
        assert content(made, made.at(interval, int(hold.position.split("/")[1], 16))) == held[hold.id]
    assert content(made, made.moment("latest")) == latest
    now = stream_tip(made.state, SOURCE)
    assert (now and now.id) == (tip and tip.id)
    stayed = {(each.point.commit, each.point.position) for each in plan.sources[0].points if each.stays}
    assert stayed == {(each.commit, each.position) for each in made.points()}
    assert not plan_truncation(made.state, rules, made.now, min_chains=min_chains).removed


STEPS = (
    "write write write changes changes changes windows full full chosen alone begin leave anew drop fail_over lost "
    "join join consolidate hold hold release truncate truncate truncate"
)
steps = st.lists(
    st.tuples(
        st.sampled_from(STEPS.split(" ")),
        st.integers(0, 1000),
        st.sampled_from([5, 70, 60 * 11, 60 * 30, 60 * 24 * 8]),
    ),
    min_size=5,
    max_size=40,
)


@settings(derandomize=True, max_examples=tiered(15, 40), deadline=None)
@given(steps)
@example([("changes", 1, 5), *((step, 0, 5) for step in ("write", "full", "consolidate", "hold"))])
# A table leaves, and a full backup lies within a window of changes that does not follow it any more.
@example(
    [
        ("write", 1, 5),
        ("full", 0, 5),
        ("leave", 0, 5),
        ("hold", 1, 5),
        ("changes", 0, 5),
        ("changes", 0, 5),
        ("full", 0, 5),
    ]
)
def test_what_is_to_stay_is_restored_as_before_whatever_came_before(taken: list[tuple[str, int, int]]) -> None:
    live(taken)


@pytest.mark.exhaustive
@settings(derandomize=True, max_examples=400, deadline=None)
@given(steps)
def test_it_is_so_in_many_more_histories(taken: list[tuple[str, int, int]]) -> None:
    live(taken)


def live(taken: list[tuple[str, int, int]]) -> None:
    """Take steps in turn, truncate, and look at all that is to be as before."""
    made = Backups()
    made.write(1, 2, 3)
    made.full(opened=bool(taken[0][1] % 2))
    for step, number, minutes in taken:
        made.wait(timedelta(minutes=minutes))
        take(made, step, number)
    made.wait(timedelta(minutes=1))
    check_truth(made)
    check_truncation(made, parse_rules(["last=1"]), 1)
    take(made, "changes", 0)
    check_truth(made)


def take(made: Backups, step: str, number: int) -> None:
    """Take a step, where it can be taken."""
    if step in ("join", "consolidate", "hold", "release", "truncate"):
        maintain(made, step, number)
    elif step in ("changes", "windows", "anew", "lost", "begin"):
        if made.stream_is_there is not (step == "begin"):
            back_up(made, step, number)
    elif step == "write":
        made.write(*(table for table in (1, 2, 3) if number >> table & 1))
    elif step == "leave":
        made.leave(1 + number % 3)
    elif step == "drop" and len(made.tables) > 1:
        made.drop(1 + number % 3)
    elif step == "fail_over":
        made.fail_over(0x1000 + 0x10 * (number % 50))
    else:
        made.full(chosen=[1 + number % 3] if step == "chosen" else None, stream=step != "alone")


def back_up(made: Backups, step: str, number: int) -> None:
    if step == "anew":
        made.begin_anew(sorted(made.tables)[number % len(made.tables)])
        return
    made.write(1 + number % 3, 2)
    if step in ("begin", "lost"):
        made.full(opened=True)
        return
    behind = [to_of(each.head) for each in blocks_of(made.state, SOURCE)] if number % 2 else []
    ends = [made.lsn - 0x18, made.lsn - 0x30] if step == "windows" else []
    made.changes(*behind, *ends, is_cut=number % 5 != 0, with_sequences=number % 4 != 0)


def maintain(made: Backups, step: str, number: int) -> None:
    if step == "join":
        joinable = [chain.changes for chain in chains(made.state, SOURCE) if len(chain.changes) > 1]
        if joinable:
            ids = list(dict.fromkeys(each.home or each.id for each in joinable[number % len(joinable)]))
            first = number % len(ids)
            some = [made.state.blocks[each] for each in ids[first : first + 3]]
            if len(some) > 1:
                made.join(some)
    elif step == "consolidate":
        ends = [
            each
            for interval in made.intervals()
            for each in interval.chain.changes
            if each.head.is_cut and interval.first <= to_of(each.head) <= interval.last
        ]
        if ends and not any(parts.stale for parts in made.moment(f"commit:{ends[-1].commit}").tables().values()):
            made.consolidate(ends[-1])
    elif step == "hold":
        found = list(positions(made))
        made.hold(made.at(*found[number % len(found)]))
    elif step == "release" and made.state.holds:
        made.release(sorted(made.state.holds)[0])
    elif step == "truncate":
        words = {RULES[number % len(RULES)], RULES[number // 7 % len(RULES)]}
        rules = parse_rules(sorted({word.partition("=")[0]: word for word in words}.values()))
        check_truncation(made, rules, 1 + number % 2)
