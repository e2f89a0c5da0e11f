"""DAGs `archive_verification_<archive>`: verification of each archive in archives.yaml."""

from __future__ import annotations

from holdfast.operations.requests.verification import VerificationRequest
from holdfast_airflow.archives import archive_dag, configured_archives, replicas_by_suffix
from holdfast_airflow.assets import record_of, verifications_of
from holdfast_airflow.forms import form_of, from_form
from holdfast_airflow.operators.verify import VerifyOperator

DOC = """
Looks whether everything that the commits of the archive **{name}** ({place}) name is there and is what was written.
Each run checks what is new, and reads files again, those first that were not read for longest: all within {within}.

Runs on the schedule `verification` of archives.yaml ({schedule}), and whenever it is triggered. Where a file is damaged
or missing the task fails, without another try, and names the table, the time and the restore points that it costs; it
goes on failing until the file is put back or its block is removed. Nothing is changed. See the runbook on damage.
Each replica has a task; one whose files are missing, or not what was written, is marked as lost, so that
`lost_replica_recovery_{name}` fetches them from another one.
"""

for name, archive in configured_archives().items():
    with archive_dag(
        "archive_verification",
        name,
        archive,
        doc=DOC,
        terms={"within": archive.verification.deep_within},
        schedule_key="verification",
        after_backup=True,
        description=f"Look whether the archive {name} is what was written",
        params=form_of(
            VerificationRequest,
            deep=True,
            within=archive.verification.deep_within,
            budget=archive.verification.budget,
        ),
    ) as dag:
        for end, replica in replicas_by_suffix(archive).items():
            VerifyOperator(
                task_id=f"verify{end}",
                archive=name,
                replica=replica,
                outlets=[verifications_of(name), record_of(name)],
                **from_form(dag, VerificationRequest),
            )
