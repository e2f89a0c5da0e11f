"""DAGs `archive_verification_<archive>`: look whether each archive in archives.yaml is what was written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, Param

from holdfast_airflow.archives import configured_archives
from holdfast_airflow.operators.verify import VerifyOperator

if TYPE_CHECKING:
    from holdfast.config import ArchiveConfig

DOC = """
Looks whether everything that the commits of the archive **{name}** ({place}) name is there and is what was written.
Each run checks what is new, and reads files again, those first that were not read for longest: all within {within}.

Runs on the schedule `verification` of archives.yaml ({schedule}), and whenever it is triggered. Where a file is damaged
or missing the task fails, without another try, and names the table, the time and the restore points that it costs; it
goes on failing until the file is put back or its block is removed. Nothing is changed. See the runbook on damage.
"""


def build(name: str, archive: ArchiveConfig) -> DAG:
    """Make the DAG of one archive."""
    schedule, configured = archive.schedule.verification, archive.verification
    with DAG(
        dag_id=f"archive_verification_{name}",
        description=f"Look whether the archive {name} is what was written",
        doc_md=DOC.format(
            name=name, place=archive.url, within=configured.deep_within, schedule=schedule or "none is set"
        ),
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        default_args={"retries": 2 if schedule else 0, "retry_delay": timedelta(minutes=5)},
        params={
            "deep": Param(
                True,
                type="boolean",
                title="Read files",
                description="Also read the bytes of files: checksums, Parquet pages, row counts.",
            ),
            "within": Param(
                configured.deep_within,
                type="string",
                pattern=r"^[0-9]+(\.[0-9]+)? ?(s|min|h|d|w)$",
                title="All within",
                description="A run reads as much as is needed to have read all files in this time, such as 30d.",
            ),
            "budget": Param(
                configured.budget,
                type=["null", "string"],
                title="Budget",
                description="What this run reads at most, such as 100 GB or 2h; empty means no bound.",
            ),
        },
        tags=["holdfast", "maintenance", name],
    ) as dag:
        VerifyOperator(
            task_id="verify",
            archive=name,
            deep=dag.param("deep"),
            within=dag.param("within"),
            budget=dag.param("budget"),
        )
    return dag


for archive_name, archive_config in configured_archives().items():
    if archive_config.url:
        build(archive_name, archive_config)
