"""DAGs `restore_drill_<archive>`: prove that each archive in archives.yaml can be restored, by doing it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, Param

from holdfast_airflow.archives import configured_archives
from holdfast_airflow.operators.drill import DrillOperator

if TYPE_CHECKING:
    from holdfast.config import ArchiveConfig

DOC = """
Restores a random moment of each source from the archive **{name}** ({place}), and nothing but it, into a PostgreSQL
server that the task starts on its worker. The result is compared with the archive, then the queries under
`drill.assertions` of archives.yaml are asked. It is recorded in the archive: `holdfast drill {name} --history`.

Runs on the schedule `drill` of archives.yaml ({schedule}), and whenever it is triggered. A failed task means that a
restore would fail, or bring back something wrong: see the runbook on failed drills. Sources go one after the other,
since each needs room for a whole database.
"""


def build(name: str, archive: ArchiveConfig) -> DAG:
    """Make the DAG of one archive."""
    schedule = archive.schedule.drill
    with DAG(
        dag_id=f"restore_drill_{name}",
        description=f"Prove that the archive {name} can be restored",
        doc_md=DOC.format(name=name, place=archive.url, schedule=schedule or "none is set"),
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        max_active_tasks=1,
        default_args={"retries": 2 if schedule else 0, "retry_delay": timedelta(minutes=5)},
        params={
            "at": Param(
                None,
                type=["null", "string"],
                title="At",
                description="The moment to restore, such as latest or 2026-11-21T17:05:00Z; empty means a random one.",
            ),
        },
        tags=["holdfast", "maintenance", name],
    ) as dag:
        for source in sorted(archive.sources) or [None]:
            DrillOperator(
                task_id=f"drill_{source}" if source else "drill", archive=name, source=source, at=dag.param("at")
            )
    return dag


for archive_name, archive_config in configured_archives().items():
    if archive_config.url:
        build(archive_name, archive_config)
