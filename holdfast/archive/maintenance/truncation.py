"""Truncation: a commit that removes the blocks no kept position needs; vacuum deletes the files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.format.document import iso
from holdfast.archive.format.state import Change
from holdfast.archive.history.coverage import covered_ranges, stream_tip
from holdfast.archive.history.holds import check_holds
from holdfast.archive.history.restore_points import only_source, points_of, source_names
from holdfast.archive.maintenance.retention import NOTHING, kept
from holdfast.common.errors import HoldfastError, RefusedError
from holdfast.common.lsn import show_position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from holdfast.archive.archive import Archive
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.document import FileRecord
    from holdfast.archive.format.state import State
    from holdfast.archive.history.coverage import Chain, CoveredRange
    from holdfast.archive.history.restore_points import RestorePoint
    from holdfast.archive.maintenance.retention import Kept, Rules

_CLOCKS_DIFFER: Final = timedelta(minutes=1)


@dataclass(frozen=True)
class PointPlan:
    """Restore point, and whether it stays."""

    point: RestorePoint
    why: tuple[str, ...]
    """Rules and holds that keep it; without any it may still stay, since its blocks are needed."""
    stays: bool

    def to_dict(self) -> dict[str, Any]:
        return {
            "at": iso(self.point.at),
            "commit": self.point.commit,
            "position": show_position(self.point.position),
            "stays": self.stays,
            "why": list(self.why),
        }


@dataclass(frozen=True)
class SourcePlan:
    """Planned truncation of one source: its points, oldest first, and what goes."""

    source: str
    points: tuple[PointPlan, ...]
    removed: tuple[str, ...]  # ids of the blocks that go
    # before, after: its covered ranges
    before: tuple[CoveredRange, ...]
    after: tuple[CoveredRange, ...]

    def summary(self) -> dict[str, Any]:
        stay = sum(each.stays for each in self.points)
        return {
            "source": self.source,
            "points_kept": stay,
            "points_removed": len(self.points) - stay,
            "blocks_removed": len(self.removed),
            "restorable_before": _spans(self.before),
            "restorable_after": _spans(self.after),
        }

    def runs(self) -> list[dict[str, Any]]:
        """Return the restore points by runs with the same outcome and the same reasons."""
        groups = [tuple(some) for _, some in groupby(self.points, key=lambda each: (each.stays, each.why))]
        return [
            {
                "from": iso(some[0].point.at),
                "to": iso(some[-1].point.at),
                "points": len(some),
                "stays": some[0].stays,
                "why": list(some[0].why),
            }
            for some in groups
        ]


@dataclass(frozen=True)
class TruncationPlan:
    """Plan of a truncation, with the bytes of the files that no block names then."""

    sources: tuple[SourcePlan, ...]
    size: int

    @property
    def removed(self) -> tuple[str, ...]:
        return tuple(identity for source in self.sources for identity in source.removed)

    def summary(self) -> dict[str, Any]:
        return {
            "blocks_removed": len(self.removed),
            "bytes": self.size,
            "sources": [source.summary() for source in self.sources],
        }

    def details(self) -> dict[str, Any]:
        """Return the summary with the runs of each source, every restore point, and why it stays."""
        sources = [
            {**source.summary(), "runs": source.runs(), "points": [each.to_dict() for each in source.points]}
            for source in self.sources
        ]
        return {**self.summary(), "sources": sources}


def plan_truncation(
    state: State, rules: Rules, now: datetime, *, source: str | None = None, min_chains: int = 1
) -> TruncationPlan:
    """Find the blocks that no position needs which rules, holds or the newest backups keep.

    :param rules: `NOTHING` removes the source, also its newest backups.
    :param now: by the store's clock.
    :param source: only this one's; None: every one's that has blocks here, whether archives.yaml names it or not.
    :param min_chains: so many of the newest full backups stay, with all that follows them.
    :raises UsageError: there is no such source.
    :raises RefusedError: the newest commit is of a later time than `now`, or a hold would lose its point.
    """
    _check_clock(state, now)
    names = source_names(state) if source is None else (only_source(state, source),)
    sources = tuple(_plan_source(state, name, rules, now, min_chains) for name in names)
    removed = {identity for each in sources for identity in each.removed}
    if removed and state.holds:
        rest = {each: placed for each, placed in state.blocks.items() if each not in removed}
        check_holds(state, replace(state, blocks=rest))
    return TruncationPlan(sources, _freed(state, removed))


def truncate(
    archive: Archive,
    rules: Rules,
    *,
    check: Callable[[], None],
    fence: str | None,
    source: str | None = None,
    min_chains: int = 1,
) -> dict[str, Any]:
    """Remove the blocks that are not kept, by one commit; none where there is nothing to remove.

    :param check: raises if a lock of the plan "truncation" is no longer held.
    :param fence: transaction id of its write lock.
    :returns: `commit`, which is None where none was made, and the summary of the plan.
    :raises UsageError, RefusedError: as `plan_truncation`.
    """
    plans: list[TruncationPlan] = []

    def plan(state: State) -> Change:
        now = archive.store.list(IDENTITY_KEY).now
        plans.append(plan_truncation(state, rules, now, source=source, min_chains=min_chains))
        if not plans[-1].removed:
            raise _NothingToRemoveError
        return Change(kind="truncation", remove=plans[-1].removed)

    try:
        commit = archive.add(plan, check=check, fence=fence).sequence
    except _NothingToRemoveError:
        return {"commit": None, **plans[-1].summary()}
    return {"commit": commit, **plans[-1].summary()}


class _NothingToRemoveError(Exception):
    """Signal that a commit would do nothing."""


def _check_clock(state: State, now: datetime) -> None:
    if state.at is not None and state.at > now + _CLOCKS_DIFFER:
        raise RefusedError(
            f"the store's clock says {iso(now)}, but the newest commit is of {iso(state.at)}: it was set back, or ran "
            "ahead before. Nothing is removed by a clock that is wrong: set it right, or wait until it is past that"
        )


def _plan_source(state: State, name: str, rules: Rules, now: datetime, min_chains: int) -> SourcePlan:
    before = covered_ranges(state, name)
    holds = [hold for hold in state.holds.values() if hold.source == name]
    kept_ranges = list(kept(before, rules, holds, now, min_chains)) if rules != NOTHING else []
    needed = _needed(kept_ranges)
    if rules != NOTHING and (tip := stream_tip(state, name)):
        needed.add(tip.home or tip.id)
    removed = tuple(each for each, placed in state.blocks.items() if placed.source == name and each not in needed)
    rest = {each: placed for each, placed in state.blocks.items() if placed.source == name and each in needed}
    after = covered_ranges(replace(state, blocks=rest), name)
    points = _points(before, kept_ranges, after)
    lost = [each.point for each in points if each.why and not each.stays]
    if lost:
        raise HoldfastError(
            f"this plan would lose {name} at {iso(lost[0].at)} (commit:{lost[0].commit}), which is to stay: nothing "
            "was removed. Please report it"
        )
    return SourcePlan(name, points, removed, before, after)


def _needed(kept_ranges: Iterable[Kept]) -> set[str]:
    chains: dict[int, tuple[Chain, list[tuple[int, int | None]]]] = {}
    for part in kept_ranges:
        chain = part.covered.chain
        chains.setdefault(id(chain), (chain, []))[1].append((part.low, part.high))
    return {identity for chain, positions in chains.values() for identity in chain.needed(positions)}


def _points(
    before: Sequence[CoveredRange], kept_ranges: Iterable[Kept], after: Sequence[CoveredRange]
) -> tuple[PointPlan, ...]:
    chosen: dict[tuple[int, int], list[str]] = {}
    open_from: dict[tuple[int, str], int] = {}
    ranges: list[Kept] = []
    for part in kept_ranges:
        chain = id(part.covered.chain)
        if part.low == part.high:
            chosen.setdefault((chain, part.low), []).append(part.why)
        elif part.high is None:
            open_from[chain, part.why] = min(part.low, open_from.get((chain, part.why), part.low))
        else:
            ranges.append(part)
    behind: dict[int, list[tuple[str, int]]] = {}
    for (chain, why), low in open_from.items():
        behind.setdefault(chain, []).append((why, low))
    origin = {placed.id: id(each.chain) for each in before for placed in each.chain.snapshots}
    # Where backups end at the same position, another one may name it from now on.
    commits = {(origin[each.covered.chain.snapshots[0].id], each.position): each.commit for each in points_of(after)}
    plans = []
    for point in points_of(before):
        chain = id(point.covered.chain)
        reasons = [*chosen.get((chain, point.position), ())]
        reasons += [why for why, low in behind.get(chain, ()) if low <= point.position]
        reasons += [part.why for part in ranges if part.holds(point)]
        commit = commits.get((chain, point.position))
        named = point if commit is None else replace(point, commit=commit)
        plans.append(PointPlan(named, tuple(dict.fromkeys(reasons)), commit is not None))
    return tuple(plans)


def _freed(state: State, removed: set[str]) -> int:
    """Return the bytes of files that no block names once some are removed.

    Files of schemas and sequences are named by other blocks than the one they were stored with, and those of tables
    that have not changed by snapshots that were made of older ones.
    """
    staying = _shared(placed for each, placed in state.blocks.items() if each not in removed)
    going = _shared(state.blocks[each] for each in removed)
    own = sum(state.blocks[each].size for each in removed)
    still_named = sum(size for path, size in staying.items() if removed.intersection(path.split("/")))
    left_over = sum(
        size
        for path, size in going.items()
        if path not in staying and not any(part in state.blocks for part in path.split("/"))
    )
    return own - still_named + left_over


def _shared(blocks: Iterable[Placed]) -> Mapping[str, int]:
    return {file.path: file.size for placed in blocks for file in _may_share(placed)}


def _may_share(placed: Placed) -> Iterable[FileRecord]:
    if placed.head.after is not None:
        return placed.head.files()
    blocks = (placed.head, *(part.block for part in placed.head.parts))
    return [file for block in blocks for file in (block.catalog, block.schema_dump, block.sequences) if file]


def _spans(ranges: Iterable[CoveredRange]) -> list[dict[str, Any]]:
    return [
        {"from": iso(covered.start), "to": iso(covered.end), "commit": covered.placed.number, "whole": covered.whole}
        for covered in ranges
    ]
