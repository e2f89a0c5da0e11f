"""Rules of retention: how they are read, and which restore points each of them keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.archive.history.restore_points import points_of
from holdfast.archive.maintenance.retention import kept, last_good, parse_rules
from holdfast.common.errors import RefusedError, UsageError
from tests.support.archives.backups import Backups

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def full_backups(times: Iterable[datetime]) -> Backups:
    made = Backups()
    for at in times:
        made.now = made.reached = at
        made.full(stream=False)
    return made


def why(made: Backups, *words: str) -> dict[datetime, list[str]]:
    """Return by moment what keeps it, but for the newest backups, which always stay."""
    found = made.intervals()
    spans = [each for each in kept(found, parse_rules(words), (), made.now, 1) if each.why != "last chain"]
    return {
        point.at: reasons
        for point in points_of(found)
        if (reasons := [span.why for span in spans if span.holds(point)])
    }


def days(*numbers: int) -> list[datetime]:
    return [NOON + timedelta(days=number) for number in numbers]


def hours(*numbers: float) -> list[datetime]:
    return [NOON + timedelta(hours=number) for number in numbers]


@pytest.mark.parametrize(
    ("rule", "times", "stay"),
    [
        ("last=2", days(0, 1, 2, 3), days(2, 3)),
        ("last=9", days(0, 1), days(0, 1)),
        ("hourly=2", hours(0, 0.2, 0.9, 1.1, 1.8, 7, 7.9), hours(1.8, 7.9)),
        ("daily=2", hours(0, 3, 30, 33, 300, 302), hours(33, 302)),
        ("weekly=2", days(0, 1, 2, 7, 8, 30), days(8, 30)),  # the first of March 2026 is a Sunday: a week of its own
        ("weekly=3", days(0, 1, 2, 7, 8, 30), days(7, 8, 30)),
        ("monthly=2", days(0, 20, 30, 31, 92, 100), days(31, 100)),
        ("yearly=2", days(-61, -60, 0, 400), days(0, 400)),
        ("within=2d", days(0, 1, 2, 3), days(1, 2, 3)),
        ("within=12h", hours(0, 1, 12.5, 13), hours(1, 12.5, 13)),
        ("within=1w", days(0, 2, 9), days(2, 9)),
        ("within=1m", days(0, 1, 32), days(1, 32)),
        ("within=1y", days(0, 1, 366, 367), days(1, 366, 367)),
        ("within=999999y", days(0, 1), days(0, 1)),
    ],
)
def test_a_rule_keeps_the_last_points_of_its_newest_periods(
    rule: str, times: Sequence[datetime], stay: Sequence[datetime]
) -> None:
    assert why(full_backups(times), rule) == {at: [rule] for at in stay}


def test_an_iso_week_may_begin_in_the_year_before() -> None:
    new_year = datetime(2026, 1, 1, 12, tzinfo=UTC)  # a Thursday
    times = [new_year - timedelta(days=4), new_year - timedelta(days=3), new_year, new_year + timedelta(days=3)]
    assert list(why(full_backups(times), "weekly=2")) == [times[0], times[3]]


def test_what_several_rules_keep_says_so() -> None:
    made = full_backups(days(0, 1, 2))
    assert why(made, "last=1", "daily=2", "monthly=1", "hourly=0") == {
        days(1)[0]: ["daily=2"],
        days(2)[0]: ["last=1", "daily=2", "monthly=1"],
    }


def test_every_moment_of_a_window_stays_from_the_full_backup_before_it_on() -> None:
    made = Backups(now=NOON, reached=NOON)
    made.full(opened=True)
    for hour in range(1, 9):
        made.now = NOON + timedelta(hours=hour)
        made.write(1)
        if hour == 3:
            made.full()
        made.changes()
    assert list(why(made, "within=4h")) == hours(3, 4, 5, 6, 7, 8)
    (span,) = {(each.low, each.high) for each in kept(made.intervals(), parse_rules(["within=4h"]), (), made.now, 1)}
    assert span == (made.points()[3].position, None)


def test_a_backup_of_chosen_tables_does_not_take_the_place_of_one_of_everything() -> None:
    made = full_backups(days(0, 1))
    made.now = made.reached = NOON + timedelta(days=1, hours=5)
    made.full(stream=False, chosen=[1])
    assert why(made, "daily=1") == {days(1)[0]: ["daily=1"], made.now: ["daily=1"]}


def test_backups_that_end_at_one_position_are_one_point() -> None:
    made = Backups()
    made.full(opened=True)
    made.write(1)
    made.full()
    made.write(2)
    made.changes(made.points()[1].position)
    assert [point.commit for point in made.points()] == [1, 2, 4]


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_the_newest_full_backups_always_stay(count: int) -> None:
    made = full_backups(days(0, 1, 2))
    stay = [placed.commit for _, placed in last_good(made.intervals(), count)]
    assert stay == [1, 2, 3][-count:]


def test_the_newest_backup_of_every_table_that_is_still_there_always_stays() -> None:
    made = full_backups(days(0, 1))
    made.full(stream=False, chosen=[1, 3])
    made.full(stream=False, chosen=[1])
    assert [placed.commit for _, placed in last_good(made.intervals(), 1)] == [2, 3, 4]
    made.drop(3)
    made.full(stream=False, chosen=[1])
    assert [placed.commit for _, placed in last_good(made.intervals(), 1)] == [2, 5]
    made.drop(2)
    made.full(stream=False)
    assert [placed.commit for _, placed in last_good(made.intervals(), 1)] == [6]


def test_the_newest_by_its_time_stays_beside_the_newest_by_its_commit() -> None:
    made = full_backups([*days(9), *days(1, 2)])  # the clock of the source was ahead
    assert [placed.commit for _, placed in last_good(made.intervals(), 1)] == [1, 3]


def test_rules_are_read_and_written() -> None:
    rules = parse_rules(["last=2", "within=7d", "daily=14", "daily=14"])
    assert (dict(rules.counts), rules.window, str(rules)) == (
        {"last": 2, "daily": 14}, timedelta(days=7), "last=2, daily=14, within=7d",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fortnightly=2"], "there is no rule 'fortnightly': write rules as last=2, hourly=48"),
        (["daily"], "cannot read 'daily': write how many are to stay, such as daily=7"),
        (["daily=-1"], "cannot read 'daily=-1'"),
        (["daily=1.5"], "cannot read 'daily=1.5'"),
        (["daily=٣"], "cannot read 'daily=٣'"),
        (["within=7"], "cannot read 'within=7': write a number and h, d, w, m or y, such as within=7d"),
        (["within=-7d"], "cannot read 'within=-7d'"),
        (["daily=7", "daily=8"], "daily is given as 7 and as 8: say it once"),
        (["within=7d", "within=1w"], "within is given as 7d and as 1w"),
    ],
)
def test_rules_that_make_no_sense_say_what_to_write(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_rules(words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing says what is to stay"),
        (["last=0"], "last=0 keeps nothing"),
        (["last=0", "daily=0", "within=0d"], "last=0, daily=0, within=0d keeps nothing"),
        (["within=0h"], "within=0h keeps nothing"),
    ],
)
def test_rules_that_keep_nothing_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        parse_rules(words)
