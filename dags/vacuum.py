"""DAGs `vacuum_<archive>`: delete the files that each archive in archives.yaml does not need any more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, Param

from holdfast_airflow.archives import configured_archives
from holdfast_airflow.operators.vacuum import VacuumOperator

if TYPE_CHECKING:
    from holdfast.config import ArchiveConfig

DOC = """
Deletes the files in the archive **{name}** ({place}) of blocks that were truncated or joined, and what killed backups
have left, once the grace is over. No restore point goes: that is what `truncation_{name}` does.

Runs on the schedule `vacuum` of archives.yaml ({schedule}), and whenever it is triggered. It gives way to restores and
backups, and comes to what it left out at its next run.
"""


def build(name: str, archive: ArchiveConfig) -> DAG:
    """Make the DAG of one archive."""
    schedule = archive.schedule.vacuum
    with DAG(
        dag_id=f"vacuum_{name}",
        description=f"Delete files that the archive {name} does not need",
        doc_md=DOC.format(name=name, place=archive.url, schedule=schedule or "none is set"),
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        default_args={"retries": 2 if schedule else 0, "retry_delay": timedelta(minutes=5)},
        params={
            "grace": Param(
                archive.vacuum.grace,
                type="string",
                pattern=r"^[0-9]+(\.[0-9]+)? ?(s|min|h|d|w)$",
                title="Grace",
                description="How long files stay after they were removed, such as 24h. Whoever restores without locks "
                "relies on it.",
            ),
            "orphans": Param(
                True,
                type="boolean",
                title="Leftovers",
                description="Also look for what killed backups have left, which lists all data.",
            ),
            "dry_run": Param(
                False,
                type="boolean",
                title="Dry run",
                description="Only say what would be deleted.",
            ),
        },
        tags=["holdfast", "maintenance", name],
    ) as dag:
        VacuumOperator(
            task_id="vacuum",
            archive=name,
            grace=dag.param("grace"),
            orphans=dag.param("orphans"),
            only_plan=dag.param("dry_run"),
        )
    return dag


for archive_name, archive_config in configured_archives().items():
    if archive_config.url:
        build(archive_name, archive_config)
