"""Hold a lock over several tasks: any other run, here or in another Airflow, waits for its name."""

from __future__ import annotations

from airflow.sdk import DAG, task

from holdfast_airflow.operators import archive_lock

with (
    DAG("lock_tasks", schedule=None),
    archive_lock(archive="shop", resource="warehouse-load", max_hold="3h", lock_wait="1h"),
):

    @task
    def extract() -> None:
        """Fetch the orders."""

    @task
    def load() -> None:
        """Load them, while nobody else does."""

    extract() >> load()
