"""DAGs `compaction_<archive>`: join the small blocks of changes of each archive in archives.yaml."""

from __future__ import annotations

from holdfast.operations.requests.compaction import CompactionRequest
from holdfast_airflow.archives import ONE_SOURCE, archive_dag, configured_archives, source_param
from holdfast_airflow.assets import record_of
from holdfast_airflow.forms import form_of, from_form
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
        after_backup=True,
        description=f"Join small blocks of the archive {name}",
        params={"source": source_param(archive, "The source of the blocks to join."), **form_of(CompactionRequest)},
    ) as dag:
        CompactOperator(
            task_id="compact",
            archive=name,
            source=ONE_SOURCE,
            outlets=[record_of(name)],
            **from_form(dag, CompactionRequest),
        )
