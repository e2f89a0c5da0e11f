"""DAGs `restore_drill_<archive>`: prove that each archive in archives.yaml can be restored, by doing it."""

from __future__ import annotations

from airflow.sdk import Param

from holdfast_airflow.archives import (
    MANY_RUNS,
    ONE_SOURCE,
    archive_dag,
    choose_tasks,
    configured_archives,
    replicas_by_suffix,
    source_param,
)
from holdfast_airflow.assets import drills_of, record_of
from holdfast_airflow.operators.drill import DrillOperator

DOC = """
Restores a random moment of each source from the archive **{name}** ({place}), and nothing but it, into a PostgreSQL
server that the task starts on its worker. The result is compared with the archive, then the queries under
`drill.assertions` of archives.yaml are asked. It is recorded in the archive: `holdfast drill {name} --history`.

Runs on the schedule `drill` of archives.yaml ({schedule}), and whenever it is triggered. A failed task means that a
restore would fail, or bring back something wrong: see the runbook on failed drills. In one run, sources, and replicas
where there are several, go one after the other, since each needs room for a whole database.
"""

for name, archive in configured_archives().items():
    with archive_dag(
        "restore_drill",
        name,
        archive,
        doc=DOC,
        schedule_key="drill",
        after_backup=True,
        description=f"Prove that the archive {name} can be restored",
        max_active_runs=MANY_RUNS,
        max_active_tasks=1,
        params={
            "source": source_param(archive, "The source to restore."),
            "at": Param(
                None,
                type=["null", "string"],
                title="At",
                description="The moment to restore, such as latest or 2026-11-21T17:05:00Z; empty means a random one.",
            ),
        },
    ) as dag:
        drills = {
            source: [
                DrillOperator(
                    task_id=f"drill_{source}{end}" if source else f"drill{end}",
                    archive=name,
                    replica=replica,
                    source=source or ONE_SOURCE,
                    at=dag.param("at"),
                    outlets=[drills_of(name), record_of(name)],
                )
                for end, replica in replicas_by_suffix(archive).items()
            ]
            for source in sorted(archive.sources) or [""]
        }
        choose_tasks(drills)
