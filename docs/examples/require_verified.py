"""Go on only where every file of a source was read and compared, or written, in the last thirty days."""

from __future__ import annotations

from airflow.sdk import DAG, task

from holdfast_airflow.sensors import VerifiedSensor

with DAG("require_verified", schedule=None):

    @task
    def drop_old_partitions() -> None:
        """Drop what the archive has."""

    VerifiedSensor(task_id="verified", archive="shop", source="warehouse", within="30d") >> drop_old_partitions()
