"""DAGs `vacuum_<archive>`: delete the files that each archive in archives.yaml does not need any more."""

from __future__ import annotations

from airflow.sdk import Param

from holdfast_airflow.archives import archive_dag, configured_archives, each_place
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
        description=f"Delete files that the archive {name} does not need",
        params={
            "grace": Param(
                archive.vacuum.grace,
                type="string",
                pattern=r"^[0-9]+(\.[0-9]+)? ?(s|min|h|d|w)$",
                title="Grace",
                description="How long files stay after they were removed, such as 24h. Whoever restores without locks "
                "relies on it.",
            ),
            "orphans": Param(
                True,
                type="boolean",
                title="Leftovers",
                description="Also look for what killed backups have left, which lists all data.",
            ),
            "dry_run": Param(
                False,
                type="boolean",
                title="Dry run",
                description="Only say what would be deleted.",
            ),
        },
    ) as dag:
        for end, replica in each_place(archive).items():
            VacuumOperator(
                task_id=f"vacuum{end}",
                archive=name,
                replica=replica,
                grace=dag.param("grace"),
                orphans=dag.param("orphans"),
                only_plan=dag.param("dry_run"),
            )
