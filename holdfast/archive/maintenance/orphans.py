"""Orphan files: files in an archive that no block names.

A block's files are in folders that carry its id. What is there beside the files that blocks name was left by killed
jobs (blocks that were never committed) and by attempts that lost against another one (in folders of blocks that were).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from holdfast.archive.format.paths import DataPath, place_of
from holdfast.archive.format.runs import listed_runs, newest_records

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from datetime import timedelta

    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.state import State
    from holdfast.storage import Listing, ObjectInfo, ObjectStore

DATA: Final = "data/"


def named_files(state: State) -> frozenset[str]:
    """Return the paths that blocks name, without those in its own folder that a block has not in memory."""
    return frozenset(file.path for placed in state.blocks.values() for file in placed.head.files())


@dataclass
class Leftovers:
    """Files in a listing that no block names."""

    orphans: dict[str, list[ObjectInfo]] = field(default_factory=dict)
    """By id, the files of blocks that were begun, and that nothing is known of."""
    strays: list[ObjectInfo] = field(default_factory=list)  # files in folders of blocks that were committed
    returned: list[ObjectInfo] = field(default_factory=list)
    """Files of abandoned blocks, written after these were vacuumed."""
    young: list[str] = field(default_factory=list)
    """Ids of blocks that nothing is known of, with files that are too new to judge."""
    unknown: list[str] = field(default_factory=list)  # keys that are not of a form that files of blocks have

    def files(self) -> dict[str, int]:
        """Return the paths of all files that may go, with their sizes."""
        orphans = (info for some in self.orphans.values() for info in some)
        return {info.key: info.size for infos in (orphans, self.strays, self.returned) for info in infos}


def survey(state: State, named: Container[str], listing: Listing, grace: timedelta) -> dict[str, Leftovers]:
    """Return the orphan files in a listing of data, by source, "" for those of no known form.

    :param named: as of `named_files`.
    :param grace: what is younger is left out, by the listing's own clock.
    """
    folders, unknown = _by_folder(listing)
    by_source: dict[str, Leftovers] = {}
    if strange := [key for key in unknown if key not in named]:
        by_source[""] = Leftovers(unknown=strange)
    for place, infos in folders.items():
        unnamed = [info for info in infos if info.key not in named]
        old = [info for info in unnamed if listing.now - info.modified >= grace]
        leftovers = by_source.setdefault(place.source, Leftovers())
        if (placed := state.blocks.get(place.block)) is not None:
            leftovers.strays += _strays(placed, infos, old)
        elif place.block in state.removed:
            leftovers.strays += old
        elif place.block in state.abandoned:
            leftovers.returned += unnamed
        elif len(old) < len(unnamed):
            leftovers.young.append(place.block)
        elif unnamed and place.block not in state.aside:  # those are nobody's to remove
            leftovers.orphans[place.block] = unnamed
    return by_source


def _by_folder(listing: Listing) -> tuple[dict[DataPath, list[ObjectInfo]], list[str]]:
    """Group a listing by the folders of blocks; the keys of what is in none of them come second."""
    folders: dict[DataPath, list[ObjectInfo]] = {}
    unknown: list[str] = []
    for info in listing.objects:
        place = place_of(info.key)
        if place is None:
            unknown.append(info.key)
        else:
            folders.setdefault(place, []).append(info)
    return folders, unknown


def _strays(placed: Placed, infos: Iterable[ObjectInfo], old: list[ObjectInfo]) -> list[ObjectInfo]:
    """Return the old files in a block's folder that it does not name.

    Which files of rows it names is read from its commit only where their sizes do not add up.
    """
    if not old:
        return []
    head = placed.head.model_copy(update={"tables": (), "packs": ()})
    rows = placed.size - sum(file.size for file in head.files() if placed.id in file.path.split("/"))
    if sum(info.size for info in infos if _has_rows(info.key)) == rows:
        return [info for info in old if not _has_rows(info.key)]
    own = {file.path for file in placed.block.files()}
    return [info for info in old if info.key not in own]


def _has_rows(path: str) -> bool:
    return path.split("/")[2] not in ("schema", "transactions")


def at_work(store: ObjectStore, grace: timedelta) -> frozenset[str]:
    """Return the ids of blocks of runs whose newest record is younger than the grace."""
    recent = [run for run in listed_runs(store) if run.now - run.infos[-1].modified < grace]
    records = (each.record for each in newest_records(recent))
    return frozenset(block for record in records for block in (record.block, record.begun and record.begun.id) if block)
