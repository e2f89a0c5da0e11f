"""DAGs `compaction_<archive>`: join the small blocks of changes of each archive in archives.yaml."""

from __future__ import annotations

from airflow.sdk import Param

from holdfast_airflow.archives import ONE_SOURCE, archive_dag, configured_archives, source_param
from holdfast_airflow.operators.compact import CompactOperator

DOC = """
Joins small blocks of changes in the archive **{name}** ({place}) into few, so that restores read fewer files. Every
restore point stays what it is. Which blocks are worth it is said in archives.yaml, under `compaction`.

Runs on the schedule `compaction` of archives.yaml ({schedule}), and whenever it is triggered. Backups and restores go
on meanwhile; the files that are not needed any more are deleted by `vacuum_{name}`, after its grace. Where the archive
has replicas, the first one of archives.yaml leads, and the others follow at their next sync.
"""

for name, archive in configured_archives().items():
    with archive_dag(
        "compaction",
        name,
        archive,
        doc=DOC,
        schedule_key="compaction",
        description=f"Join small blocks of the archive {name}",
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
    ) as dag:
        CompactOperator(
            task_id="compact",
            archive=name,
            source=ONE_SOURCE,
            consolidate=dag.param("consolidate"),
        )
