"""A report after each backup into an archive: regions are loaded side by side, each under a lock of its own.

Copy it into Airflow's dags folder and change the names. It needs an archive named `shop` in archives.yaml.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, task, task_group

from holdfast_airflow.assets import backups_of
from holdfast_airflow.operators import archive_lock
from holdfast_airflow.sensors import VerifiedSensor

REGIONS = ["emea", "apac"]


@task
def transform(region: str) -> None:
    """Work on one region."""


@task_group
def load(region: str) -> None:
    """Keep others from a region while it is worked on."""
    with archive_lock(archive="shop", resource=region):
        transform(region)


@task.locked(archive="shop", resource="warehouse-load", mode="read", lock_wait="30 min")
def report() -> None:
    """Write the report while nobody loads the warehouse; others may read it, too."""


with DAG(
    dag_id="report_after_backups",
    schedule=[backups_of("shop")],
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
):
    VerifiedSensor(task_id="verified", archive="shop", within="30d") >> load.expand(region=REGIONS) >> report()
