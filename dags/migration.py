"""DAGs `migration_<archive>`: lift each archive in archives.yaml to a newer format. By hand only."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow.sdk import DAG, Param

from holdfast_airflow.archives import configured_archives
from holdfast_airflow.operators.migrate import NEWEST_FORMAT, MigrateOperator

if TYPE_CHECKING:
    from holdfast.config import ArchiveConfig

DOC = """
Lifts the archive **{name}** ({place}) to a newer format, by one commit. Nothing that was written is touched, and its
restore points stay what they are. It waits until no backup, restore or maintenance works with the archive.

Older releases refuse the archive afterwards: upgrade all that use it first.
"""


def build(name: str, archive: ArchiveConfig) -> DAG:
    """Make the DAG of one archive."""
    with DAG(
        dag_id=f"migration_{name}",
        description=f"Lift the archive {name} to a newer format",
        doc_md=DOC.format(name=name, place=archive.url),
        schedule=None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params={
            "to": Param(
                NEWEST_FORMAT,
                type="integer",
                minimum=1,
                maximum=NEWEST_FORMAT,
                title="Format",
                description="The one to lift it to; where it has that already, nothing is done.",
            ),
        },
        tags=["holdfast", "maintenance", name],
    ) as dag:
        MigrateOperator(task_id="migrate", archive=name, to=dag.param("to"))
    return dag


for archive_name, archive_config in configured_archives().items():
    if archive_config.url:
        build(archive_name, archive_config)
