"""Samples of the bytes in an archive that nothing needs, from a list of all its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.archive.format.paths import place_of
from holdfast.archive.maintenance.orphans import DATA, named_files, survey
from holdfast.metrics.samples import sample

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from holdfast.archive import Archive
    from holdfast.metrics.samples import Sample
    from holdfast.storage import Listing


def unneeded(archive: Archive, label: str, grace: timedelta) -> Iterator[Sample]:
    """Yield the bytes that a vacuum deletes once their grace is over.

    Requests: the listing, and few for blocks with files of killed attempts beside theirs.

    :param grace: orphans that are younger do not count: they may be of a backup that is at work.
    """
    listing = archive.store.list(DATA)
    named = named_files(archive.state)
    removed = _of_removed(archive, listing, named)
    left = survey(archive.state, named, listing, grace).values()
    orphans = {path: size for each in left for path, size in each.files().items() if path not in removed}
    yield sample("holdfast_unneeded_bytes", sum(removed.values()), label, "removed")
    yield sample("holdfast_unneeded_bytes", sum(orphans.values()), label, "orphan")


def _of_removed(archive: Archive, listing: Listing, named: frozenset[str]) -> dict[str, int]:
    """Return the files of removed blocks, but for those that blocks made of them still name, with their sizes."""
    return {
        info.key: info.size
        for info in listing.objects
        if info.key not in named and (place := place_of(info.key)) is not None and place.block in archive.state.removed
    }
