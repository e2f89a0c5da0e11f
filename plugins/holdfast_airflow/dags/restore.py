"""DAGs `restore_<archive>`: bring a source of each archive in archives.yaml back. Triggered by hand."""

from __future__ import annotations

from airflow.sdk import Param

from holdfast.operations.requests.restore import RestoreRequest
from holdfast_airflow.approval import wait_for_approval
from holdfast_airflow.archives import MANY_RUNS, archive_dag, configured_archives
from holdfast_airflow.assets import record_of, restores_of
from holdfast_airflow.forms import form_of, from_form
from holdfast_airflow.operators.restore import RestoreOperator

DOC = """
Restores from the archive **{name}** ({place}) into the database of an Airflow connection.

`at` is a moment that can be restored; `holdfast points` lists them. Any other is refused, and the message
names the nearest that can be. What was restored is compared with the archive before the task succeeds.

Without `tables` and `map`, everything comes back, into an empty database. With them, other things may be in the
database; they are left as they are. It is a dry run, whose plan is the task's return value, until `dry_run` is false.
"""

ASKED = "Restore {{ params.source }} to {{ params.at }} into the database of {{ params.target_connection }}?"

for name, archive in configured_archives().items():
    sources = sorted(archive.sources)
    with archive_dag(
        "restore",
        name,
        archive,
        doc=DOC,
        tag="restore",
        description=f"Restore from the archive {name}",
        max_active_runs=MANY_RUNS,  # one may wait for a person, who must not keep the others out
        start_date=None,  # by hand alone, so that there is no first day
        params={
            # No default: a restore must never go to a database that no one has named.
            "target_connection": Param(
                type="string",
                minLength=1,
                title="Target connection",
                description="Id of the Airflow connection (of type holdfast_postgres) to the database to restore into.",
            ),
            "source": Param(
                sources[0] if len(sources) == 1 else None,
                **({"enum": sources} if sources else {"type": ["null", "string"]}),
                title="Source",
                description="The database to bring back.",
            ),
            **form_of(RestoreRequest, consistency=archive.consistency, dry_run=True),
        },
    ) as dag:
        restore = RestoreOperator(
            task_id="restore",
            archive=name,
            source=dag.param("source"),
            target_conn_id=dag.param("target_connection"),
            outlets=[restores_of(name), record_of(name)],
            **from_form(dag, RestoreRequest),
        )
        wait_for_approval(restore, "restore", archive.approval, ASKED)
