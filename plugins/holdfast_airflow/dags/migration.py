"""DAGs `migration_<archive>`: lift each archive in archives.yaml to a newer format. By hand only."""

from __future__ import annotations

from airflow.sdk import Param

from holdfast_airflow.archives import archive_dag, archives_at_one_place
from holdfast_airflow.operators.migrate import NEWEST_FORMAT, MigrateOperator

DOC = """
Lifts the archive **{name}** ({place}) to a newer format, by one commit for each step. Nothing that was written
is touched, and its restore points stay what they are. It waits until no backup, restore or maintenance works with the
archive.

Older releases refuse the archive afterwards: upgrade all that use it first.
"""

for name, archive in archives_at_one_place().items():
    with archive_dag(
        "migration",
        name,
        archive,
        doc=DOC,
        description=f"Lift the archive {name} to a newer format",
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
    ) as dag:
        MigrateOperator(task_id="migrate", archive=name, to=dag.param("to"))
