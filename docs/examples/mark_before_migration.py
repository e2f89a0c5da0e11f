"""Name the moment before a migration, so that one can restore to it by its name."""

from __future__ import annotations

from airflow.sdk import DAG, task

from holdfast_airflow.operators import MarkOperator

with DAG("mark_before_migration", schedule=None):

    @task
    def migrate() -> None:
        """Change the tables."""

    MarkOperator(task_id="mark", archive="shop", source="warehouse", name="before {{ run_id }}") >> migrate()
