"""DAGs `truncation_<archive>`: truncation and vacuum of each archive in archives.yaml."""

from __future__ import annotations

from holdfast.operations.requests.truncation import TruncationRequest
from holdfast_airflow.approval import wait_for_approval
from holdfast_airflow.archives import ONE_SOURCE, archive_dag, configured_archives, replicas_by_suffix, source_param
from holdfast_airflow.assets import record_of
from holdfast_airflow.forms import form_of, from_form
from holdfast_airflow.operators.truncate import TruncateOperator
from holdfast_airflow.operators.vacuum import VacuumOperator

DOC = """
Removes the restore points of the archive **{name}** ({place}) that no rule and no hold keeps; the newest backups always
stay. The rules of archives.yaml: {keep}. Then files are deleted of what was removed before the grace ({grace}).

Runs on the schedule `truncation` of archives.yaml ({schedule}), and whenever it is triggered. Try it as a dry run
first: its log says which points would go, and why the others would stay. Where the archive has replicas, the first one
of archives.yaml leads, and the others follow at their next sync; a vacuum of each waits for those that are behind.
"""

ASKED = (
    "Remove restore points that no rule keeps, of {{ params.source }}? Rules: {{ params.keep or 'of archives.yaml' }}."
)

for name, archive in configured_archives().items():
    keep = ", ".join(archive.keep.rules()) or "there are none, so that a run needs its own"
    with archive_dag(
        "truncation",
        name,
        archive,
        doc=DOC,
        terms={"keep": keep, "grace": archive.vacuum.grace},
        schedule_key="truncation",
        after_backup=True,
        description=f"Remove what no rule keeps from the archive {name}",
        params={"source": source_param(archive, "The source of the restore points."), **form_of(TruncationRequest)},
    ) as dag:
        truncate = TruncateOperator(
            task_id="truncate",
            archive=name,
            source=ONE_SOURCE,
            outlets=[record_of(name)],
            **from_form(dag, TruncationRequest),
        )
        wait_for_approval(truncate, "truncation", archive.approval, ASKED)
        truncate >> [
            VacuumOperator(task_id=f"vacuum{end}", archive=name, replica=replica, only_plan=dag.param("dry_run"))
            for end, replica in replicas_by_suffix(archive).items()
        ]
