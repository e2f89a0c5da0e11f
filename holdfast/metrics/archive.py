"""Samples of an archive's own contents: sizes, sources, objectives, holds and locks."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.format.paths import place_of
from holdfast.archive.maintenance.orphans import DATA, named_files, survey
from holdfast.common.units import parse_span
from holdfast.config.archives_model import ObjectivesConfig
from holdfast.metrics.catalogue import sample
from holdfast.objectives import Facts, judge_facts
from holdfast.status import record_of
from locking import inspect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from holdfast.archive import Archive
    from holdfast.config.archives_model import SourceConfig
    from holdfast.metrics.catalogue import Sample
    from locking import LockInfo

_OF_SOURCE = {
    "restorable_from": "holdfast_source_restorable_from_timestamp_seconds",
    "restorable_to": "holdfast_source_restorable_to_timestamp_seconds",
    "last_full": "holdfast_source_last_full_timestamp_seconds",
    "bytes": "holdfast_source_bytes",
    "rows": "holdfast_source_rows",
    "backups": "holdfast_source_full_backups",
    "changes": "holdfast_source_change_backups",
}
"""Keys of a source in the record of an archive, each with its metric."""


def contents(archive: Archive, label: str, sources: Mapping[str, SourceConfig]) -> Iterator[Sample]:
    """Yield the samples of an archive's contents and of its sources' objectives; requests: those of `record_of`."""
    record = record_of(archive, sources)
    for name in ("bytes", "blocks", "commits", "format"):
        yield sample(f"holdfast_archive_{name}", record[name], label)
    for source in record["sources"]:
        yield from _source(source, label)
        yield from _facts(source, label, datetime.fromisoformat(record["at"]))


def _source(source: Mapping[str, Any], label: str) -> Iterator[Sample]:
    for key, metric in _OF_SOURCE.items():
        if (value := source.get(key)) is not None:
            yield sample(metric, datetime.fromisoformat(value) if isinstance(value, str) else value, label, _of(source))
    yield sample("holdfast_source_waiting_tables", len(source.get("waiting", ())), label, _of(source))


def _facts(source: Mapping[str, Any], label: str, now: datetime) -> Iterator[Sample]:
    facts = Facts.from_described(source["facts"])
    values = {
        "holdfast_source_last_drill_timestamp_seconds": facts.drilled,
        "holdfast_source_last_drill_duration_seconds": facts.drill_s,
        "holdfast_source_verified_since_timestamp_seconds": facts.verified,
        "holdfast_source_damaged_files": len(facts.damaged),
        "holdfast_source_key_proved_timestamp_seconds": facts.key_proved,
    }
    for metric, value in values.items():
        if value is not None:
            yield sample(metric, value, label, _of(source))
    for each in judge_facts(_of(source), facts, ObjectivesConfig.model_validate(source["objectives"]), now):
        yield sample("holdfast_objective_met", each.is_met, label, each.source, each.name)
        limit = parse_span(each.limit).total_seconds()
        yield sample("holdfast_objective_limit_seconds", limit, label, each.source, each.name)


def _of(source: Mapping[str, Any]) -> str:
    return str(source["source"])


def holds(archive: Archive, label: str) -> Iterator[Sample]:
    """Yield the samples of an archive's holds; no request."""
    by_source: dict[str, list[datetime]] = {placed.source: [] for placed in archive.state.blocks.values()}
    for hold in archive.state.holds.values():
        by_source.setdefault(hold.source, []).append(hold.created)
    for source, created in sorted(by_source.items()):
        yield sample("holdfast_holds", len(created), label, source)
        if created:
            yield sample("holdfast_hold_oldest_created_timestamp_seconds", min(created), label, source)


def locks(archive: Archive, label: str) -> Iterator[Sample]:
    """Yield the samples of an archive's locks.

    Requests: one listing, two if it is not ordered, one for each lock, and one for all that cannot be read.
    """
    infos = inspect(archive.store)
    counts = Counter((info.resource, info.mode or "unknown", info.state) for info in infos)
    for labels, count in sorted(counts.items()):
        yield sample("holdfast_locks", count, label, *labels)
    oldest: dict[tuple[str, str], datetime] = {}
    for key, since in _since(archive, infos):
        oldest[key] = min(oldest.get(key, since), since)
    for key, since in sorted(oldest.items()):
        yield sample("holdfast_lock_oldest_timestamp_seconds", since, label, *key)


def _since(archive: Archive, infos: Iterable[LockInfo]) -> Iterator[tuple[tuple[str, str], datetime]]:
    """Yield the begin of each lock, by resource and state; one that cannot be read is as old as its object."""
    unread = [info for info in infos if info.since is None]
    yield from (((info.resource, info.state), info.since) for info in infos if info.since is not None)
    if unread:
        now = archive.store.list(IDENTITY_KEY).now
        yield from (((info.resource, info.state), now - timedelta(seconds=info.age_s)) for info in unread)


def unneeded(archive: Archive, label: str, grace: timedelta) -> Iterator[Sample]:
    """Yield the bytes that a vacuum deletes once their grace is over.

    Requests: the listing, and few for blocks with files of killed attempts.

    :param grace: younger orphans do not count, since a running backup may have made them.
    """
    listing, named = archive.store.list(DATA), named_files(archive.state)
    # Blocks that were made of removed ones may still name their files.
    removed = {
        info.key: info.size
        for info in listing.objects
        if info.key not in named and (place := place_of(info.key)) is not None and place.block in archive.state.removed
    }
    surveyed = survey(archive.state, named, listing, grace).values()
    orphans = {path: size for each in surveyed for path, size in each.files().items() if path not in removed}
    yield sample("holdfast_unneeded_bytes", sum(removed.values()), label, "removed")
    yield sample("holdfast_unneeded_bytes", sum(orphans.values()), label, "orphan")
