"""Restore a database every Sunday, into an empty one that was made for it."""

from __future__ import annotations

from airflow.sdk import DAG

from holdfast_airflow.operators import RestoreOperator

with DAG("restore_weekly", schedule="0 6 * * 0", catchup=False):
    RestoreOperator(
        task_id="restore",
        archive="shop",
        source="warehouse",
        target_conn_id="drill_postgres",
        at="latest",
        lock_wait="30 min",
    )
