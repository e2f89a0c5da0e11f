"""Hold a lock of its own over each instance of a mapped task group."""

from __future__ import annotations

from airflow.sdk import DAG, task, task_group

from holdfast_airflow.operators import archive_lock


@task
def transform(region: str) -> None:
    """Work on one region."""


@task_group
def load(region: str) -> None:
    """Keep others from a region while it is worked on."""
    with archive_lock(archive="shop", resource=region):
        transform(region)


with DAG("lock_each_region", schedule=None):
    load.expand(region=["emea", "apac"])
