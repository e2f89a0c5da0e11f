"""DAGs `compaction_<archive>`: join the small blocks of changes of each archive in archives.yaml."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, Param

from holdfast_airflow.archives import ONE_SOURCE, configured_archives, source_param
from holdfast_airflow.operators.compact import CompactOperator

if TYPE_CHECKING:
    from holdfast.config import ArchiveConfig

DOC = """
Joins small blocks of changes in the archive **{name}** ({place}) into few, so that restores read fewer files. Every
restore point stays what it is. Which blocks are worth it is said in archives.yaml, under `compaction`.

Runs on the schedule `compaction` of archives.yaml ({schedule}), and whenever it is triggered. Backups and restores go
on meanwhile; the files that are not needed any more are deleted by `vacuum_{name}`, after its grace.
"""


def build(name: str, archive: ArchiveConfig) -> DAG:
    """Make the DAG of one archive."""
    schedule = archive.schedule.compaction
    with DAG(
        dag_id=f"compaction_{name}",
        description=f"Join small blocks of the archive {name}",
        doc_md=DOC.format(name=name, place=archive.url, schedule=schedule or "none is set"),
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        default_args={"retries": 2 if schedule else 0, "retry_delay": timedelta(minutes=5)},
        params={
            "source": source_param(archive, "Whose blocks to join."),
            "consolidate": Param(
                False,
                type="boolean",
                title="Consolidate",
                description="Also make a full snapshot of the newest one and the changes since, without asking the "
                "source: restores of later moments begin there.",
            ),
        },
        tags=["holdfast", "maintenance", name],
    ) as dag:
        CompactOperator(
            task_id="compact",
            archive=name,
            source=ONE_SOURCE,
            consolidate=dag.param("consolidate"),
        )
    return dag


for archive_name, archive_config in configured_archives().items():
    if archive_config.url:
        build(archive_name, archive_config)
