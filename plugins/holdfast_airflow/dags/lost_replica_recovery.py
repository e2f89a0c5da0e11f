"""DAGs `lost_replica_recovery_<archive>`: recovery of the lost replicas of each archive in archives.yaml."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Param

from holdfast_airflow.archives import archive_dag, archives_with_replicas
from holdfast_airflow.operators.recover_replicas import RecoverReplicasOperator

INTERVAL = timedelta(minutes=15)

DOC = """
Rebuilds each lost replica of the archive **{name}** ({place}) from the one that is furthest, copying only what is
missing or damaged. A replica is lost where the log was trimmed beyond it while it was away, where it was found to be an
older copy of itself, or where verification has found files that are missing or damaged. Where all are lost, a person
says which one to go on from: `holdfast replica elect`.
"""

for name, archive in archives_with_replicas().items():
    with archive_dag(
        "lost_replica_recovery",
        name,
        archive,
        doc=DOC,
        tag="replicas",
        description=f"Rebuild the lost replicas of the archive {name}",
        schedule=INTERVAL,
        params={
            "deep": Param(
                True,
                type="boolean",
                title="Read what is there",
                description="Read the files that the replica still has, too, and replace those that are damaged.",
            ),
        },
    ) as dag:
        RecoverReplicasOperator(task_id="recover", archive=name, deep="{{ params.deep }}")
