"""Assets of archives, for Airflow's schedules and for the page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

from holdfast.config.archives_model import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.parse import SplitResult

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
    """Return the asset that each restore from an archive updates. The event has what :class:`RestoreOperator` returns.

    :param archive: its name in archives.yaml.
    """
    return _part(archive, "restores")


def drills_of(archive: str) -> Asset:
    """Return the asset that each drill that went well updates. The event has what :class:`DrillOperator` returns.

    :param archive: its name in archives.yaml.
    """
    return _part(archive, "drills")


def verifications_of(archive: str) -> Asset:
    """Return the asset that each verification without damage updates.

    The event has what :class:`VerifyOperator` returns.

    :param archive: its name in archives.yaml.
    """
    return _part(archive, "verifications")


def record_of(archive: str) -> Asset:
    """Return the asset with the record of an archive.

    The tasks of the shipped DAGs update it after their work.

    The event has `holdfast.status.record_of`: the archive's contents, and the facts that its objectives are judged by.
    The page reads it, so that it shows an archive that cannot be reached.

    :param archive: its name in archives.yaml.
    """
    return _part(archive, RECORD)


def is_record(uri: str) -> bool:
    """Return whether an asset's address is that of a record."""
    scheme, _, path = uri.partition("://")
    return scheme == SCHEME and path.partition("/")[2] == RECORD  # an archive may be called so


def _part(archive: str, name: str) -> Asset:
    # Names of archives have no colon, so that no other archive's asset is called so.
    return Asset(name=f"holdfast_{archive}:{name}", uri=f"{SCHEME}://{archive}/{name}")
