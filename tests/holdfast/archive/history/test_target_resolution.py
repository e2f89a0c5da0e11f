"""Resolution of expressions to recovery targets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.archive import Archive, State
from holdfast.archive.format.block import Block
from holdfast.archive.history import target_resolution
from holdfast.common.errors import RefusedError, UsageError

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
