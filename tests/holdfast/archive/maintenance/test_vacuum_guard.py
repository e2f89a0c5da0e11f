"""The guard of an archive at one place: nobody else needs its files."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.archive import Archive
from holdfast.archive.format.state import Removed
from holdfast.archive.maintenance.vacuum import Permit


def test_nobody_is_waited_for_and_everything_may_go(archive: Archive) -> None:
    gone = Removed(id="b1", source="shop", added=1, removed=2, at=datetime(2026, 3, 1, tzinfo=UTC))
    assert Permit().awaited(archive, [gone]) == {}
    assert list(Permit().abandon({"b1"})) == list(Permit().unnamed({"b1"})) == ["b1"]
