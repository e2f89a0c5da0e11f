"""Records of archives in Airflow's database, from the events of record assets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.models.asset import AssetEvent, AssetModel
from sqlalchemy import select
from sqlalchemy.orm import aliased

from holdfast_airflow.assets import RECORD, SCHEME

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from sqlalchemy.orm import Session

_LOOKED_BACK = 20
"""Events that are looked through where the newest has no record, since its task could not make one."""


@dataclass(frozen=True)
class KeptRecord:
    """A record as a task has kept it.

    :param at: when Airflow took it.
    :param content: `holdfast.status.record_of`, and `replication` where the archive has replicas.
    """

    at: datetime
    content: Mapping[str, Any]


def recorded_archives(session: Session) -> dict[str, int]:
    """Return the archives that have a record asset, with the ids of these assets."""
    rows = session.execute(select(AssetModel.uri, AssetModel.id).where(AssetModel.uri.like(f"{SCHEME}://%/{RECORD}")))
    return {uri.removeprefix(f"{SCHEME}://").removesuffix(f"/{RECORD}"): identity for uri, identity in rows}


def newest_records(session: Session, assets: Mapping[str, int]) -> dict[str, KeptRecord]:
    """Return the newest record of each archive that has one.

    One query, and one more for each archive whose newest event has none.

    :param assets: ids by archive, as `recorded_archives` returns them.
    """
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
