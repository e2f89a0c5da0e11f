"""DAGs `truncation_<archive>`: remove what no rule keeps of each archive in archives.yaml, then vacuum."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, Param

from holdfast_airflow.archives import ONE_SOURCE, configured_archives, source_param
from holdfast_airflow.operators.truncate import TruncateOperator
from holdfast_airflow.operators.vacuum import VacuumOperator

if TYPE_CHECKING:
    from holdfast.config import ArchiveConfig

DOC = """
Removes the restore points of the archive **{name}** ({place}) that no rule and no hold keeps; the newest backups always
stay. The rules of archives.yaml: {keep}. Then files are deleted of what was removed before the grace ({grace}).

Runs on the schedule `truncation` of archives.yaml ({schedule}), and whenever it is triggered. Try it as a dry run
first: its log says which points would go, and why the others would stay.
"""


def build(name: str, archive: ArchiveConfig) -> DAG:
    """Make the DAG of one archive."""
    schedule = archive.schedule.truncation
    keep = ", ".join(archive.keep.rules()) or "there are none, so that a run needs its own"
    with DAG(
        dag_id=f"truncation_{name}",
        description=f"Remove what no rule keeps from the archive {name}",
        doc_md=DOC.format(
            name=name, place=archive.url, keep=keep, grace=archive.vacuum.grace, schedule=schedule or "none is set"
        ),
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        default_args={"retries": 2 if schedule else 0, "retry_delay": timedelta(minutes=5)},
        params={
            "source": source_param(archive, "Whose restore points to look at."),
            "keep": Param(
                [],
                # Without null the form marks the field as required.
                type=["null", "array"],
                items={
                    "type": "string",
                    "pattern": "^(last|hourly|daily|weekly|monthly|yearly|within)=[0-9]+[hdwmy]?$",
                },
                title="Keep",
                description="Rules such as last=2, daily=14 or within=7d, one a line; empty: those of archives.yaml.",
            ),
            "min_chains": Param(
                1,
                type="integer",
                minimum=1,
                title="Full backups",
                description="So many of the newest ones always stay, with what follows them.",
            ),
            "dry_run": Param(
                False,
                type="boolean",
                title="Dry run",
                description="Only say what would go; nothing is removed, and nothing deleted.",
            ),
        },
        tags=["holdfast", "maintenance", name],
    ) as dag:
        truncate = TruncateOperator(
            task_id="truncate",
            archive=name,
            source=ONE_SOURCE,
            keep=dag.param("keep"),
            min_chains=dag.param("min_chains"),
            only_plan=dag.param("dry_run"),
        )
        truncate >> VacuumOperator(task_id="vacuum", archive=name, only_plan=dag.param("dry_run"))
    return dag


for archive_name, archive_config in configured_archives().items():
    if archive_config.url:
        build(archive_name, archive_config)
