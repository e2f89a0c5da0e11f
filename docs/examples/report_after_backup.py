"""Run after each backup of one source, with what the backup's event says."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, task

from holdfast_airflow.assets import backups_of

WAREHOUSE = backups_of("shop", "warehouse")

with DAG("report_after_backup", schedule=[WAREHOUSE], catchup=False):

    @task
    def report(triggering_asset_events: Any = None) -> str:
        """Return up to when the warehouse can be restored."""
        newest = triggering_asset_events[WAREHOUSE][-1]
        return str(newest.extra["restorable_to"])

    report()
