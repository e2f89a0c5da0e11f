"""Backups given up because no replica has their files any more, with the reason in commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.archive.archive import Archive

GIVEN_UP = "given up"  # the kind of commits that take them back


def reason_of(source: str, why: str) -> str:
    return f"backups of {source} were given up: {why}"


def why_given_up(archive: Archive, source: str, since: int) -> str:
    """Return why backups of a source were given up last, behind a commit; "" where none were."""
    begins = reason_of(source, "")
    reasons = [
        each.reason for each in archive.commits(since) if each.kind == GIVEN_UP and each.reason.startswith(begins)
    ]
    return reasons[-1] if reasons else ""
