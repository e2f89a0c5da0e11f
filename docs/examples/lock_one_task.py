"""Hold a lock over one task, and share it with other readers."""

from __future__ import annotations

from airflow.sdk import DAG, task

with DAG("lock_one_task", schedule=None):

    @task.locked(archive="shop", resource="warehouse-load", mode="read", lock_wait="30 min")
    def report() -> None:
        """Write the report while nobody loads the warehouse."""

    report()
