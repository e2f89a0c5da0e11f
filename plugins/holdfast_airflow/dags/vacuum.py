"""DAGs `vacuum_<archive>`: delete the files that each archive in archives.yaml does not need any more."""

from __future__ import annotations

from holdfast.operations.requests.vacuum import VacuumRequest
from holdfast_airflow.archives import archive_dag, configured_archives, replicas_by_suffix
from holdfast_airflow.forms import form_of, from_form
from holdfast_airflow.operators.vacuum import VacuumOperator

DOC = """
Deletes the files in the archive **{name}** ({place}) of blocks that were truncated or joined, and what killed backups
have left, once the grace is over. No restore point goes: that is what `truncation_{name}` does.

Runs on the schedule `vacuum` of archives.yaml ({schedule}), and whenever it is triggered. It gives way to restores and
backups, and comes to what it left out at its next run. Where the archive has replicas, there is a task for each, which
leaves alone what another replica may still fetch from that one.
"""

for name, archive in configured_archives().items():
    with archive_dag(
        "vacuum",
        name,
        archive,
        doc=DOC,
        schedule_key="vacuum",
        after_backup=True,
        description=f"Delete files that the archive {name} does not need",
        params=form_of(VacuumRequest, grace=archive.vacuum.grace),
    ) as dag:
        for end, replica in replicas_by_suffix(archive).items():
            VacuumOperator(
                task_id=f"vacuum{end}",
                archive=name,
                replica=replica,
                **from_form(dag, VacuumRequest),
            )
