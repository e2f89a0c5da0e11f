"""Samples of an archive's own contents: sizes, sources, objectives, holds and locks."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from holdfast.archive.archive import IDENTITY_KEY
from holdfast.common.units import parse_span
from holdfast.config.archives_model import ObjectivesConfig
from holdfast.metrics.samples import sample
from holdfast.objectives import Facts, judge_facts
from holdfast.status import record_of
from locking import inspect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from holdfast.archive import Archive
    from holdfast.config.archives_model import SourceConfig
    from holdfast.metrics.samples import Sample
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
    """Yield the samples of an archive's contents and of its sources' objectives.

    Requests: those of `record_of`.

    :param label: of the archive.
    """
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
    told = {
        "holdfast_source_last_drill_timestamp_seconds": facts.drilled,
        "holdfast_source_last_drill_duration_seconds": facts.drill_s,
        "holdfast_source_verified_since_timestamp_seconds": facts.verified,
        "holdfast_source_damaged_files": len(facts.damaged),
        "holdfast_source_key_proved_timestamp_seconds": facts.key_proved,
    }
    for metric, value in told.items():
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

    Requests: one listing, two where they are not ordered, one for each lock, and one for those that cannot be read.
    """
    found = inspect(archive.store)
    many = Counter((each.resource, each.mode or "unknown", each.state) for each in found)
    for (resource, mode, state), count in sorted(many.items()):
        yield sample("holdfast_locks", count, label, resource, mode, state)
    oldest: dict[tuple[str, str], datetime] = {}
    for key, since in _since(archive, found):
        oldest[key] = min(oldest.get(key, since), since)
    for (name, each_state), since in sorted(oldest.items()):
        yield sample("holdfast_lock_oldest_timestamp_seconds", since, label, name, each_state)


def _since(archive: Archive, found: Iterable[LockInfo]) -> Iterator[tuple[tuple[str, str], datetime]]:
    """Yield since when each lock is there, by resource and state; one that cannot be read is as old as its object."""
    unread = []
    for each in found:
        if each.since is None:
            unread.append(each)
        else:
            yield (each.resource, each.state), each.since
    if unread:
        now = archive.store.list(IDENTITY_KEY).now
        yield from (((each.resource, each.state), now - timedelta(seconds=each.age_s)) for each in unread)
