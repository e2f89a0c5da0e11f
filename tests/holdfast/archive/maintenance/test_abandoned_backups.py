"""Backups that were given up: the commits say of which source, and why."""

from __future__ import annotations

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.maintenance.abandoned_backups import GIVEN_UP, reason_of, why_given_up


def test_the_reason_names_the_source() -> None:
    assert reason_of("shop", "no replica has them") == "backups of shop were given up: no replica has them"


@pytest.fixture
def told(archive: Archive) -> Archive:
    """An archive that gave up backups of two sources, those of one of them twice."""
    for number, (source, why) in enumerate((("shop", "first"), ("shop.a", "other"), ("shop", "second: and last"))):
        identity = f"b{number}"
        for change in (
            Change("backup", add=(make_block(identity=identity, source=source),)),
            Change(GIVEN_UP, remove=(identity,), reason=reason_of(source, why)),
        ):
            archive.add(lambda state, change=change: change, check=lambda: None, fence=None)  # type: ignore[misc]
    change = Change("truncation", reason=reason_of("crm", "said by a person"))
    archive.add(lambda state: change, check=lambda: None, fence=None)
    return archive


@pytest.mark.parametrize(
    ("source", "since", "why"),
    [
        ("shop", 0, "second: and last"),
        ("shop", 5, "second: and last"),
        ("shop", 6, ""),
        ("shop.a", 0, "other"),
        ("shop.a", 3, "other"),
        ("shop.a", 4, ""),
        ("sho", 0, ""),
        ("crm", 0, ""),
    ],
)
def test_the_last_reason_behind_a_commit_is_told(told: Archive, source: str, since: int, why: str) -> None:
    assert why_given_up(told, source, since) == (reason_of(source, why) if why else "")
