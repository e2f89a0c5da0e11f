"""Resolution of expressions to recovery targets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from holdfast.archive import Archive, State
from holdfast.archive.format.block import Block, Mark
from holdfast.archive.history import restore_points, target_resolution
from holdfast.common.errors import RefusedError, UsageError
from tests.support.archives.chain_writer import ChainWriter

MakeBlock = Callable[..., Block]


@pytest.mark.parametrize(
    ("at", "commit"),
    [
        ("latest", 3),
        ("commit:1", 1),
        ("2026-03-01T13:00:00Z", 2),
        ("2026-03-01T13:00:00+00:00", 2),
        ("2026-03-01T14:00:00+01:00", 2),
    ],
)
def test_a_restorable_moment_is_found(archive: Archive, state: State, at: str, commit: int) -> None:
    assert target_resolution.resolve(state, archive.store, "shop_db", at).commit == commit


def test_a_time_in_a_gap_is_refused_with_the_moments_on_both_sides(archive: Archive, state: State) -> None:
    with pytest.raises(RefusedError) as refused:
        target_resolution.resolve(state, archive.store, "shop_db", "2026-03-01T12:30:00Z")
    assert "before it 2026-03-01T12:00:00.000000Z (commit:1)" in str(refused.value)
    assert "after it 2026-03-01T13:00:00.000000Z (commit:2)" in str(refused.value)
    assert refused.value.exit_code == 5


@pytest.mark.parametrize(
    ("at", "nearest"),
    [("2020-01-01T00:00:00Z", "after it 2026-03-01T12:00"), ("2099-01-01T00:00:00Z", "before it 2026-03-01T14:00")],
)
def test_a_time_outside_all_backups_names_the_nearest(archive: Archive, state: State, at: str, nearest: str) -> None:
    with pytest.raises(RefusedError, match=nearest):
        target_resolution.resolve(state, archive.store, "shop_db", at)


def test_a_commit_that_is_no_restore_point_names_those_that_are(archive: Archive, state: State) -> None:
    with pytest.raises(RefusedError, match="commit:1, commit:2, commit:3"):
        target_resolution.resolve(state, archive.store, "shop_db", "commit:7")


@pytest.mark.parametrize(
    ("text", "better"),
    [("2020-03-01T12:00", "2020-03-01T12:00:00Z"), ("2020-03-01", "2020-03-01T00:00:00Z")],
)
def test_a_time_without_a_zone_is_refused_with_one_that_can_be_read(
    archive: Archive, state: State, text: str, better: str
) -> None:
    with pytest.raises(UsageError, match=f"{text} names no time zone: write {better} for UTC"):
        target_resolution.resolve(state, archive.store, "shop_db", text)
    with pytest.raises(RefusedError, match="cannot be restored to"):
        target_resolution.resolve(state, archive.store, "shop_db", better)


def test_words_that_are_no_moment_are_refused(archive: Archive, state: State) -> None:
    with pytest.raises(UsageError, match="latest, commit:N"):
        target_resolution.resolve(state, archive.store, "shop_db", "yesterday")


def test_a_time_is_the_longest_prefix_before_the_first_commit_that_is_later(writer: ChainWriter) -> None:
    writer.snapshot("0/110", 0, opened=True)
    # The second was committed before the first, by the clock.
    writer.changes("0/200", 10, ("0/120", 3), ("0/130", 2), ("0/140", 5))
    writer.changes("0/300", 20, ("0/210", 4), ("0/220", 15))
    assert writer.minute(1) == "0/110"
    assert writer.minute(2) == "0/110"
    assert writer.minute(3) == "0/138"
    assert writer.minute(4) == "0/138"
    assert writer.minute(5) == "0/218"
    assert writer.minute(14) == "0/218"
    assert writer.minute(15) == "0/228"
    assert writer.minute(20) == "0/300"
    with pytest.raises(RefusedError, match=r"nearest restorable moments are: before it 2026-03-01T12:20"):
        writer.minute(21)
    with pytest.raises(RefusedError, match="after it 2026-03-01T12:00"):
        writer.minute(-1)


def test_a_time_does_not_reach_over_what_is_not_listed_to_a_later_backup(writer: ChainWriter) -> None:
    writer.snapshot("0/110", 0, opened=True)
    writer.changes("0/200", 10, ("0/120", 3))
    # Who dropped a table at 12, or wrote to one that is not followed, is known to have done so by 20 only.
    writer.changes("0/300", 20)
    writer.snapshot("0/380", 25)
    writer.changes("0/400", 30)
    assert [writer.minute(minute) for minute in (10, 11, 19)] == ["0/200"] * 3
    assert [writer.minute(minute) for minute in (20, 24, 25, 29, 30)] == ["0/300", "0/300", "0/380", "0/380", "0/400"]


def test_transactions_before_the_snapshot_do_not_count(writer: ChainWriter) -> None:
    writer.snapshot("0/180", 0, opened=True)
    writer.changes("0/200", 10, ("0/120", 5), ("0/190", 6))
    assert writer.minute(1) == "0/180"


def test_commits_positions_and_marks_name_moments(writer: ChainWriter, noon: datetime) -> None:
    writer.snapshot("0/180", 0, opened=True)
    mark = Mark(name="before the release", position="0/1A0", at=noon)
    commit = writer.changes("0/200", 1, marks=(mark,))
    assert writer.at(f"commit:{commit}") == "0/200"
    assert writer.at("commit:1") == "0/180"
    assert writer.at("lsn:0/1FF") == "0/1FF"
    assert writer.at("before the release") == writer.at("mark:before the release") == "0/1A0"
    with pytest.raises(RefusedError, match="has no mark 'after it' in its backups; they hold: before the release"):
        writer.at("mark:after it")
    assert restore_points.describe(writer.archive.state)["sources"][0]["marks"][0]["name"] == "before the release"


def test_a_position_behind_the_header_of_a_page_that_is_not_begun_is_the_logs_end(writer: ChainWriter) -> None:
    writer.snapshot("0/1180", 0, opened=True)
    writer.changes("0/2000", 1)
    assert [writer.at(f"lsn:0/{told}") for told in ("2000", "2018", "2028")] == ["0/2000"] * 3
    with pytest.raises(RefusedError, match="cannot be restored to lsn:0/2030"):
        writer.at("lsn:0/2030")
    writer.changes("0/2100", 2)
    assert writer.at("lsn:0/2018") == "0/2018"


def test_a_mark_behind_the_header_of_a_page_that_is_not_begun_is_the_logs_end(
    writer: ChainWriter, noon: datetime
) -> None:
    writer.snapshot("0/1180", 0, opened=True)
    writer.changes("0/2000", 1, marks=(Mark(name="it filled its page", position="0/2018", at=noon),))
    assert writer.at("it filled its page") == "0/2000"
    writer.changes("0/2100", 2)
    assert writer.at("it filled its page") == "0/2018"


def test_a_time_before_now_is_a_time(writer: ChainWriter) -> None:
    writer.snapshot("0/180", 0, opened=True)
    with pytest.raises(RefusedError, match="the nearest restorable moments are"):
        writer.at("-1s")
    with pytest.raises(UsageError, match="cannot read '-soon' as a moment"):
        writer.at("-soon")
