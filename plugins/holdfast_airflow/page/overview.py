"""What the page shows of archives by Airflow's database alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow.models.asset import AssetEvent, AssetModel
from airflow.models.pool import Pool
from sqlalchemy import select
from sqlalchemy.orm import aliased

from holdfast_airflow.assets import RECORD, SCHEME
from holdfast_airflow.page.activity import active_tasks, dags_of, open_failures
from holdfast_airflow.page.recent_runs import recent_backups, recent_days
from holdfast_airflow.page.verdicts import NO_RECORD, judge_source, reasons_of_archive, shared_reasons, without_record

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from holdfast.config.archives_model import ArchiveConfig
    from holdfast_airflow.page.activity import Dag, Dags, Task
    from holdfast_airflow.page.page import PageConfiguration
    from holdfast_airflow.page.verdicts import SourceVerdict

_LOOKED_BACK = 20
"""Events that are looked through where the newest has no record, since its task could not make one."""


@dataclass(frozen=True)
class KeptRecord:
    """A record as a task has kept it, and when Airflow took it.

    :param content: `holdfast.status.record_of`, and `replication` where the archive has replicas.
    """

    at: datetime
    content: Mapping[str, Any]


def recorded_archives(session: Session) -> dict[str, int]:
    """Return the archives that have a record asset, with the ids of these assets."""
    rows = session.execute(select(AssetModel.uri, AssetModel.id).where(AssetModel.uri.like(f"{SCHEME}://%/{RECORD}")))
    return {uri.removeprefix(f"{SCHEME}://").removesuffix(f"/{RECORD}"): identity for uri, identity in rows}


def newest_records(session: Session, assets: Mapping[str, int]) -> dict[str, KeptRecord]:
    """Return the newest record of each archive; a query, and one for each newest event without one."""
    names = {identity: name for name, identity in assets.items()}
    event = aliased(AssetEvent)
    newest = (
        select(event.id)
        .where(event.asset_id == AssetModel.id)
        .order_by(event.timestamp.desc())
        .limit(1)
        .correlate(AssetModel)
        .scalar_subquery()
    )
    rows = session.execute(
        select(AssetEvent.asset_id, AssetEvent.timestamp, AssetEvent.extra)
        .join(AssetModel, AssetEvent.id == newest)
        .where(AssetModel.id.in_(names))
    )
    events = {names[asset]: KeptRecord(at, content or {}) for asset, at, content in rows}
    records = {name: event for name, event in events.items() if _is_record(event.content)}
    return records | _older(session, {assets[name]: name for name in events.keys() - records.keys()})


def _older(session: Session, assets: Mapping[int, str]) -> dict[str, KeptRecord]:
    records = {}
    for identity, name in assets.items():
        rows = session.execute(
            select(AssetEvent.timestamp, AssetEvent.extra)
            .where(AssetEvent.asset_id == identity)
            .order_by(AssetEvent.timestamp.desc())
            .limit(_LOOKED_BACK)
        )
        kept = next((KeptRecord(at, content) for at, content in rows if _is_record(content or {})), None)
        if kept:
            records[name] = kept
    return records


def _is_record(content: Collection[str]) -> bool:
    """Return whether an event has a record. One by hand, or of a task that could not reach the archive, has none."""
    return "sources" in content and "archive" in content


_WORST = {"not ready": 0, "unknown": 1, "ready": 2}


@dataclass(frozen=True)
class _Looked:
    records: Mapping[str, KeptRecord]
    dags: Dags
    active: Sequence[Task]
    failures: Sequence[Task]
    pools: Collection[str]


def shown_archives(session: Session, configuration: PageConfiguration) -> set[str]:
    """Return the archives of archives.yaml, and those that tasks have recorded."""
    return {*configuration.archives, *configuration.mistakes, *recorded_archives(session)}


def overview(
    session: Session, configuration: PageConfiguration, archives: Collection[str], now: datetime
) -> list[dict[str, Any]]:
    """Return an entry of the list for each archive, those first that need a person; a fixed number of queries."""
    seen = _look(session, archives)
    entries = [_entry(name, configuration, seen, now) for name in sorted(archives)]
    return sorted(entries, key=lambda entry: (_WORST[entry["state"]], entry["archive"]))


def detail(session: Session, configuration: PageConfiguration, archive: str, now: datetime) -> dict[str, Any]:
    """Return an archive's entry, record, tasks, DAGs and recent runs."""
    seen = _look(session, [archive])
    record = seen.records.get(archive)
    entry = _entry(archive, configuration, seen, now)
    dags, sources = seen.dags.of(archive), [source["source"] for source in entry["sources"]]
    return {
        **entry,
        "record": dict(record.content) if record else None,
        "active": [task.describe() for task in seen.active],
        "failures": [task.describe() for task in seen.failures],
        "no_failures": "" if seen.failures else _no_failures(entry["mistake"], dags),
        "dags": [dag.describe() for dag in dags],
        "days": recent_days(session, dags, sources, now),
        "backups": recent_backups(session, dags, sources, now),
    }


def entry_by(
    session: Session, configuration: PageConfiguration, archive: str, content: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """Return an archive's entry by a record of now, which knows what no task has recorded."""
    seen = _look(session, [archive])
    kept = seen.records.get(archive)
    record = KeptRecord(now, {**content, "replication": kept.content.get("replication") if kept else None})
    return _entry(archive, configuration, replace(seen, records={archive: record}), now)


def archive_of(session: Session, dag: str, archives: Collection[str]) -> str | None:
    """Return the archive, of these, that a DAG belongs to. None where it belongs to none."""
    owner = dags_of(session, archives).by_id.get(dag)
    return owner.archive if owner else None


def _no_failures(mistake: str, dags: Sequence[Dag]) -> str:
    if mistake:
        return "None, but with the mistake above nothing of it runs."
    return "The newest run of no DAG has failed." if dags else "None: Airflow has no DAG of it."


def _look(session: Session, archives: Collection[str]) -> _Looked:
    assets = {name: asset for name, asset in recorded_archives(session).items() if name in archives}
    dags = dags_of(session, archives)
    pools = {name for name in session.scalars(select(Pool.pool)) if name}
    records = newest_records(session, assets)
    return _Looked(records, dags, active_tasks(session, dags), open_failures(session, dags), pools)


def _entry(name: str, configuration: PageConfiguration, seen: _Looked, now: datetime) -> dict[str, Any]:
    config = configuration.archives.get(name)
    record = seen.records.get(name)
    failures = [task for task in seen.failures if task.archive == name]
    verdicts = _verdicts(config, record, failures, now)
    missing = _missing(config, record, verdicts)
    if missing:  # it says so already
        verdicts = [verdict.without(NO_RECORD) for verdict in verdicts]
    shared, verdicts = shared_reasons(verdicts)
    names = [verdict.source for verdict in verdicts]
    reasons = reasons_of_archive(failures, names, record.content.get("replication") if record else None)
    mistake = configuration.mistakes.get(name) or _without_pool(config, seen.pools)
    paused = seen.dags.paused(name)
    states = ["not ready"] if mistake or paused or reasons else []
    states += [verdict.state for verdict in verdicts] or ["unknown"]
    return {
        "archive": name,
        "state": min(states, key=lambda state: _WORST[state]),
        "mistake": mistake,
        "reasons": [*reasons, *shared],
        "missing": missing,
        "configured": config is not None,
        "place": config.url or ", ".join(config.replicas or {})
        if config
        else (record.content["url"] if record else ""),
        "encrypted": bool(config and config.encryption),
        "quorum": config.quorum if config else None,
        "replicas": _replicas(record),
        "recorded": record.at.isoformat() if record else None,
        "record_age_s": round((now - record.at).total_seconds(), 1) if record else None,
        "bytes": record.content.get("bytes") if record else None,
        "commits": record.content.get("commits") if record else None,
        "sources": [verdict.describe() for verdict in verdicts],
        "running": sum(task.archive == name and task.state == "running" for task in seen.active),
        "waiting": sum(task.archive == name and task.state != "running" for task in seen.active),
        "failed": len(failures),
        "paused": paused,
        "next": _next(seen.dags.of(name)),
    }


def _missing(config: ArchiveConfig | None, record: KeptRecord | None, verdicts: Sequence[SourceVerdict]) -> list[str]:
    if config is None or any(verdict.facts.get("restorable_to") for verdict in verdicts):
        return []
    reasons = [] if record else ["No task has recorded anything of it: it may not have been created yet."]
    if not config.sources:
        reasons.append("archives.yaml names no source of it.")
    return [*reasons, *(f"{verdict.source} has no backup yet." for verdict in verdicts)]


def _next(dags: Sequence[Dag]) -> str | None:
    times = [dag.next for dag in dags if dag.next and dag.operation in ("backup", "changes")]
    return min(times).isoformat() if times else None


def _without_pool(config: ArchiveConfig | None, pools: Collection[str]) -> str:
    if config is None or config.pool is None or config.pool in pools:
        return ""
    return f"Airflow has no pool '{config.pool}', so no task of this archive starts: make it under Admin > Pools"


def _verdicts(
    config: ArchiveConfig | None, record: KeptRecord | None, failures: Sequence[Task], now: datetime
) -> list[SourceVerdict]:
    recorded = {source["source"]: source for source in record.content["sources"]} if record else {}
    configured = config.sources if config else {}
    names = sorted({*recorded, *configured})
    return [
        judge_source(
            recorded[name],
            now=now,
            objectives=configured[name].objectives if name in configured else None,
            failures=failures,
            sources=names,
        )
        if name in recorded
        else without_record(name, failures, names)
        for name in names
    ]


def _replicas(record: KeptRecord | None) -> list[dict[str, Any]]:
    replication = record.content.get("replication") if record else None
    return [
        {key: replica[key] for key in ("name", "entries_behind", "bytes_behind", "seconds_behind", "active", "lost")}
        for replica in (replication or {}).get("replicas", ())
    ]
