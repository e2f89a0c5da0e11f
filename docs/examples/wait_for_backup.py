"""Wait until what was loaded can be restored, before its origin is deleted."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, task

from holdfast_airflow.sensors import RestorableSensor

with DAG("wait_for_backup", schedule=None):

    @task
    def load() -> str:
        """Load the orders, and return when that was done."""
        return datetime.now(UTC).isoformat()

    @task
    def delete_files() -> None:
        """Delete the files that the orders came in."""

    backed_up = RestorableSensor(
        task_id="backed_up",
        archive="shop",
        source="warehouse",
        until="{{ ti.xcom_pull('load') }}",
        poke_interval=10,
    )
    load() >> backed_up >> delete_files()
