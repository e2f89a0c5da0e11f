"""Assets of archives, for Airflow's schedules and for the page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

from holdfast.common.errors import HoldfastError, sentence
from holdfast.config.archives_model import NAME
from locking.one_line import line_logger
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from urllib.parse import SplitResult

    from airflow.sdk import Context

    from holdfast.operations.archive_context import ArchiveContext
    from holdfast.storage import ObjectStore

SCHEME = "x-holdfast"
"""Airflow leaves addresses whose scheme begins with `x-` as they are."""

RECORD = "record"
"""The last part of the address of an archive's record."""


def backups_of(archive: str, source: str | None = None) -> Asset:
    """Return the asset that each backup into an archive updates: `DAG(schedule=[backups_of("shop")])` runs after it.

    The event's `extra` says which: `source` and all that :class:`BackupOperator` returns, such as `kind`, `commit`,
    `restorable_to` and `position`. Full backups and those of changes update the same asset.

    :param archive: its name in archives.yaml.
    :param source: backups of this one only.
    """
    if source is not None:
        return _part(archive, f"backups/{source}")
    return Asset(name=f"holdfast_{archive}", uri=f"{SCHEME}://{archive}")


def create_asset(*, archive: str, source: str | None = None, extra: Mapping[str, Any] | None = None) -> Asset:
    """Return the asset of backups, for Airflow's lineage collector."""
    asset = backups_of(archive, source)
    return Asset(name=asset.name, uri=asset.uri, extra=dict(extra or {}))


def check_uri(uri: SplitResult) -> SplitResult:
    """Return the address of an asset as it is.

    :raises ValueError: it names no archive.
    """
    if not re.fullmatch(NAME, uri.netloc):
        raise ValueError(f"{uri.geturl()} names no archive: write {SCHEME}://ARCHIVE, by its name in archives.yaml")
    return uri


def restores_of(archive: str) -> Asset:
    """Return the asset of an archive's restores; events have what :class:`RestoreOperator` returns."""
    return _part(archive, "restores")


def drills_of(archive: str) -> Asset:
    """Return the asset of good drills; events have what :class:`DrillOperator` returns."""
    return _part(archive, "drills")


def verifications_of(archive: str) -> Asset:
    """Return the asset of verifications without damage; events have what :class:`VerifyOperator` returns."""
    return _part(archive, "verifications")


def record_of(archive: str) -> Asset:
    """Return the asset of an archive's record, which tasks of the shipped DAGs update.

    The event has `holdfast.status.record_of`: the page shows an archive by it that cannot be reached.
    """
    return _part(archive, RECORD)


def is_record(uri: str) -> bool:
    """Return whether an asset's address is that of a record."""
    scheme, _, path = uri.partition("://")
    return scheme == SCHEME and path.partition("/")[2] == RECORD  # an archive may be called so


def _part(archive: str, name: str) -> Asset:
    # Names of archives have no colon, so that no other archive's asset is called so.
    return Asset(name=f"holdfast_{archive}:{name}", uri=f"{SCHEME}://{archive}/{name}")


log = line_logger(__name__)


def fill_events(
    outlets: Iterable[Any],
    context: Context,
    *,
    summary: Mapping[str, Any],
    archive: ArchiveContext,
    store: ObjectStore,
) -> None:
    """Put a task's summary into the events of its outlets; into those of records, the archive's record.

    A record that cannot be made is logged, and fails no task: the work is done.
    """
    for asset in outlets:
        if not isinstance(asset, Asset) or not asset.uri.startswith(f"{SCHEME}:"):
            continue
        if is_record(asset.uri):
            try:
                context["outlet_events"][asset].extra = _record(archive, store)
            except (HoldfastError, StoreError) as error:
                log.warning("the archive's record is not updated: %s", sentence(error))
        else:
            context["outlet_events"][asset].extra = dict(summary)


def _record(archive: ArchiveContext, store: ObjectStore) -> dict[str, Any]:
    from holdfast.archive import Archive
    from holdfast.status import record_of

    record = record_of(Archive.open(store), archive.settings.sources)
    if archive.settings.replicas:
        record["replication"] = _replication(archive, record["archive"])
    return record


def _replication(archive: ArchiveContext, identity: str) -> dict[str, Any] | None:
    from holdfast.replication.log.status import status
    from holdfast.replication.log.store import opened

    if archive.coordination.url is None:
        return None
    with opened(archive.coordination) as coordination:
        statuses = coordination.run(lambda connection: status(connection, identity))
    return statuses[0].describe() if statuses else None
