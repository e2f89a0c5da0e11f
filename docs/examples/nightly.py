"""A DAG of one's own: load the warehouse, back it up, and prove every Sunday that it comes back.

Copy it into Airflow's dags folder and change the names. It needs three Airflow connections
(`spark_default`, `warehouse_postgres`, `drill_postgres`) and an archive named `shop` in archives.yaml.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, task

from holdfast_airflow.assets import backups_of
from holdfast_airflow.operators import BackupOperator, RestoreOperator, archive_lock

with (
    DAG(
        dag_id="nightly_load",
        schedule="0 2 * * *",
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
    ),
    # One load at a time, whatever starts it: any other run, here or in another Airflow, waits for this name.
    archive_lock(
        archive="shop",
        resource="warehouse-load",
        purpose="nightly load",
        max_hold="3h",
        lock_wait="1h",
    ),
):

    @task
    def load() -> None:
        """Load the day's orders."""

    load() >> BackupOperator(task_id="back_up", archive="shop", source="warehouse", outlets=[backups_of("shop")])

with DAG(
    dag_id="weekly_drill",
    schedule="0 6 * * 0",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
):
    # The target has to be an empty database, so make it anew before each drill.
    RestoreOperator(
        task_id="restore",
        archive="shop",
        source="warehouse",
        target_conn_id="drill_postgres",
        at="latest",
        lock_wait=timedelta(minutes=30),
    )
