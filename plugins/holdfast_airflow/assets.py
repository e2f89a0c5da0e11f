"""Assets of archives, for Airflow's schedules."""

from __future__ import annotations

from airflow.sdk import Asset

SCHEME = "x-holdfast"
"""Airflow leaves addresses whose scheme begins with `x-` as they are."""


def backups_of(archive: str) -> Asset:
    """Return the asset that each backup into an archive updates: `DAG(schedule=[backups_of("shop")])` runs after it.

    The event's `extra` says which: `source` and all that :class:`BackupOperator` returns, such as `kind`, `commit`,
    `restorable_to` and `position`. Full backups and those of changes update the same asset.

    :param archive: its name in archives.yaml.
    """
    return Asset(name=f"holdfast_{archive}", uri=f"{SCHEME}://{archive}")
