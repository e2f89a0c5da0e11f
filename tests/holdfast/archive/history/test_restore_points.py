from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from holdfast.archive import Archive, Change, State
from holdfast.archive.format.block import Block
from holdfast.archive.history import restore_points, target_resolution
from holdfast.common.errors import UsageError

MakeBlock = Callable[..., Block]


def test_full_backups_alone_are_moments_with_named_gaps_between(state: State) -> None:
    source = restore_points.describe(state)["sources"][0]
    assert [(each["from"], each["to"], each["commit"]) for each in source["intervals"]] == [
        ("2026-03-01T12:00:00.000000Z", "2026-03-01T12:00:00.000000Z", 1),
        ("2026-03-01T13:00:00.000000Z", "2026-03-01T13:00:00.000000Z", 2),
        ("2026-03-01T14:00:00.000000Z", "2026-03-01T14:00:00.000000Z", 3),
    ]
    assert [(gap["from"], gap["to"]) for gap in source["gaps"]] == [
        ("2026-03-01T12:00:00.000000Z", "2026-03-01T13:00:00.000000Z"),
        ("2026-03-01T13:00:00.000000Z", "2026-03-01T14:00:00.000000Z"),
    ]


def test_latest_is_the_newest_backup_of_the_whole_database(archive: Archive, block: MakeBlock, noon: datetime) -> None:
    for hour, whole in enumerate([False, True, False]):
        change = Change(kind="backup", add=(block(at=noon + timedelta(hours=hour), whole=whole),))
        archive.add(lambda state, change=change: change, check=lambda: None, fence=None)  # type: ignore[misc]
        if hour == 0:
            assert target_resolution.resolve(archive.state, archive.store, "shop_db", "latest").commit == 1
    assert target_resolution.resolve(archive.state, archive.store, "shop_db", "latest").commit == 2
    assert target_resolution.resolve(archive.state, archive.store, "shop_db", "commit:3").commit == 3
    found = restore_points.describe(archive.state)["sources"][0]["intervals"]
    assert [interval["whole"] for interval in found] == [False, True, False]


def test_the_source_is_asked_for_only_where_there_are_several(archive: Archive, state: State, block: MakeBlock) -> None:
    assert restore_points.only_source(state, None) == "shop_db"
    with pytest.raises(UsageError, match="it has: shop_db"):
        restore_points.only_source(state, "crm")
    with pytest.raises(UsageError, match="no backups yet"):
        restore_points.only_source(State(), None)
    change = Change(kind="backup", add=(block(source="crm"),))
    archive.add(lambda state: change, check=lambda: None, fence=None)
    with pytest.raises(UsageError, match="crm, shop_db"):
        restore_points.only_source(archive.state, None)


def test_a_commit_says_of_which_source_it_is(archive: Archive, state: State, block: MakeBlock) -> None:
    change = Change(kind="backup", add=(block(source="crm"),))
    archive.add(lambda state: change, check=lambda: None, fence=None)
    number = archive.state.sequence
    assert restore_points.only_source(archive.state, None, f"commit:{number}") == "crm"
    assert restore_points.only_source(archive.state, None, f"commit:{number - 1}") == "shop_db"
    assert restore_points.only_source(archive.state, "shop_db", f"commit:{number}") == "shop_db"
    for at in ("latest", f"commit:{number + 1}"):
        with pytest.raises(UsageError, match="say which source"):
            restore_points.only_source(archive.state, None, at)


def test_who_takes_the_newest_moment_learns_how_old_it_is(archive: Archive, state: State, noon: datetime) -> None:
    moment = target_resolution.resolve(state, archive.store, "shop_db", "latest")
    newest = noon + timedelta(hours=2)
    assert restore_points.age_of_newest(state, moment, newest + timedelta(seconds=59)) == ""
    assert restore_points.age_of_newest(state, moment, newest + timedelta(minutes=7)) == (
        "the newest restorable moment of shop_db is 7 min old: if the source has changed since, run 'holdfast backup "
        "ARCHIVE --source shop_db' first"
    )
    earlier = replace(moment, position=moment.position - 1)
    assert restore_points.age_of_newest(state, earlier, newest + timedelta(minutes=7)) == ""
