"""Back up what a load has changed, as soon as it is done. DAGs that are scheduled on its asset run after that."""

from __future__ import annotations

from airflow.sdk import DAG, task

from holdfast_airflow.assets import backups_of
from holdfast_airflow.operators import BackupOperator

with DAG("back_up_after_load", schedule="0 2 * * *", catchup=False):

    @task
    def load() -> None:
        """Load the day's orders."""

    load() >> BackupOperator(
        task_id="back_up",
        archive="shop",
        source="warehouse",
        kind="changes",
        outlets=[backups_of("shop"), backups_of("shop", "warehouse")],
    )
