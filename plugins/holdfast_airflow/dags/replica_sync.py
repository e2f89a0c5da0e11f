"""DAGs `replica_sync_<archive>`: bring the replicas of each archive in archives.yaml to the head of their log."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import AssetOrTimeSchedule, DeltaTriggerTimetable, Param

from holdfast_airflow.archives import archive_dag, archives_with_replicas
from holdfast_airflow.assets import backups_of
from holdfast_airflow.operators.sync_replica import SyncReplicaOperator

INTERVAL = timedelta(minutes=5)
"""A third of a replica's lease, or less: a replica that is synced counts as active."""

DOC = """
Brings each replica of the archive **{name}** ({place}) to the head of the update log: fetches the files of what was
backed up through others, checks them, and commits each entry. One task for each replica; one that fails keeps no other
from following. It runs after each backup, and every five minutes.

Where a replica lacks much, trigger it with `spark`: then the copies are spread over Spark's tasks.

`lost_replica_recovery_{name}` rebuilds a lost replica. How far each is: `holdfast replica status`.
"""

for name, archive in archives_with_replicas().items():
    with archive_dag(
        "replica_sync",
        name,
        archive,
        doc=DOC,
        tag="replicas",
        description=f"Bring the replicas of the archive {name} to the head of their log",
        # By time, too: the backup that others made may be there, and its task have failed after that.
        schedule=AssetOrTimeSchedule(timetable=DeltaTriggerTimetable(INTERVAL), assets=[backups_of(name)]),
        retry_delay=timedelta(minutes=1),
        params={
            "spark": Param(
                False,
                type="boolean",
                title="By Spark",
                description="Spread the copies over Spark's tasks, where a replica lacks much.",
            ),
        },
    ) as dag:
        for replica in archive.replicas or {}:
            SyncReplicaOperator(task_id=f"sync_{replica}", archive=name, replica=replica, spark=dag.param("spark"))
