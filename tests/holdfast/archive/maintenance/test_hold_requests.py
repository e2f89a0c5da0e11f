"""Holds: made and taken back by commits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from holdfast.archive import Archive, Change
from holdfast.archive.format.block import Block
from holdfast.archive.history.holds import is_kept
from holdfast.archive.maintenance.hold_requests import add_hold, remove_hold
from holdfast.common.errors import RefusedError, UsageError


@pytest.fixture
def three(archive: Archive, block: Callable[..., Block], noon: datetime) -> Archive:
    """An archive of three full backups, an hour apart."""
    for hour in range(3):
        added = block(identity=f"b{hour}", position=f"0/{hour}00", at=noon + timedelta(hours=hour))
        change = Change(kind="backup", add=(added,))
        archive.add(lambda state, change=change: change, check=lambda: None, fence=None)  # type: ignore[misc]
    return archive


def hold(archive: Archive, at: str, *, reason: str = "an audit") -> str:
    made, _ = add_hold(archive, None, at, reason=reason, owner="ada@host", check=lambda: None)
    return made.id


def remove(archive: Archive, *blocks: str) -> None:
    archive.add(lambda state: Change(kind="truncation", remove=blocks), check=lambda: None, fence=None)


def test_a_hold_is_one_commit_that_says_what_who_and_why(three: Archive, noon: datetime) -> None:
    made, commit = add_hold(three, "shop_db", "commit:2", reason="an audit", owner="ada@host", check=lambda: None)
    assert (made.source, made.position, made.at) == ("shop_db", "0/100", noon + timedelta(hours=1))
    assert (made.owner, made.reason, commit.kind, commit.holds) == ("ada@host", "an audit", "hold", (made,))
    assert abs(made.created - commit.committed_at) < timedelta(minutes=1)
    assert Archive.open(three.store).state.holds == {made.id: made}


def test_a_point_that_is_held_cannot_be_removed_by_anyone(three: Archive) -> None:
    identity = hold(three, "2026-03-01T13:00:00Z", reason="the case of May")
    said = (
        rf"would remove what a hold keeps: shop_db at 2026-03-01T13:00:00\.000000Z \(hold {identity}: the case of May\)"
    )
    with pytest.raises(RefusedError, match=said):
        remove(three, "b0", "b1")
    remove(three, "b0")
    assert is_kept(three.state, three.state.holds[identity])


def test_once_a_hold_is_taken_back_its_point_may_go(three: Archive) -> None:
    identity = hold(three, "commit:1")
    _, commit = remove_hold(three, identity, reason="the audit is over", check=lambda: None)
    assert (commit.kind, commit.released, commit.reason) == ("release", (identity,), "the audit is over")
    remove(three, "b0")
    assert set(Archive.open(three.store).state.blocks) == {"b1", "b2"}


def test_a_point_that_is_not_there_is_refused_with_the_nearest(three: Archive) -> None:
    with pytest.raises(RefusedError, match=r"before it 2026-03-01T12:00:00\.000000Z .* after it 2026-03-01T13:00"):
        hold(three, "2026-03-01T12:30:00Z")
    with pytest.raises(RefusedError, match="it has: commit:1, commit:2, commit:3"):
        hold(three, "commit:9")
    assert three.state.sequence == 3


def test_a_point_that_is_removed_meanwhile_is_not_held(three: Archive) -> None:
    other = Archive.open(three.store)
    remove(three, "b0")
    with pytest.raises(RefusedError, match="commit:1 is no restore point"):
        hold(other, "commit:1")


def test_a_hold_that_is_not_there_cannot_be_taken_back(three: Archive) -> None:
    identity = hold(three, "commit:1")
    with pytest.raises(UsageError, match=rf"no hold 'nobody' \(there are: {identity}\)"):
        remove_hold(three, "nobody", reason="why not", check=lambda: None)
    remove_hold(three, identity, reason="over", check=lambda: None)
    with pytest.raises(UsageError, match=r"there are: none"):
        remove_hold(three, identity, reason="over", check=lambda: None)


@pytest.mark.parametrize("reason", ["", "  ", "two\nlines"])
def test_a_hold_wants_a_reason_in_words(three: Archive, reason: str) -> None:
    with pytest.raises(UsageError, match="say why, and for whom"):
        hold(three, "latest", reason=reason)
    identity = hold(three, "latest")
    with pytest.raises(UsageError, match="say why, and for whom"):
        remove_hold(three, identity, reason=reason, check=lambda: None)


def test_a_lock_that_is_lost_keeps_a_hold_from_being_made(three: Archive) -> None:
    def lost() -> None:
        raise RefusedError("lost")

    with pytest.raises(RefusedError, match="lost"):
        add_hold(three, None, "latest", reason="why", owner="me", check=lost)
    assert not Archive.open(three.store).state.holds
