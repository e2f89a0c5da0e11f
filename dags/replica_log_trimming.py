"""DAGs `replica_log_trimming_<archive>`: trimming of the update log of each archive with replicas."""

from __future__ import annotations

from airflow.sdk import Param

from holdfast_airflow.archives import archive_dag, archives_with_replicas
from holdfast_airflow.operators.trim_log import MAX_KEEP, MIN_KEEP, TrimLogOperator

DOC = """
Removes the entries of the update log of the archive **{name}** ({place}) that every active replica has executed. For a
replica that is away, up to `max_keep` of them are kept; then it is lost, and `lost_replica_recovery_{name}` makes it
anew from another one. Never all replicas are lost.
"""

for name, archive in archives_with_replicas().items():
    with archive_dag(
        "replica_log_trimming",
        name,
        archive,
        doc=DOC,
        tag="replicas",
        description=f"Trim the update log of the archive {name}",
        schedule="@hourly",
        params={
            "min_keep": Param(
                MIN_KEEP,
                type="integer",
                minimum=0,
                title="Kept in any case",
                description="So many of the newest entries stay, whoever has executed them.",
            ),
            "max_keep": Param(
                MAX_KEEP,
                type="integer",
                minimum=0,
                title="Kept for a replica that is away",
                description="Where one that is away needs more, it is lost.",
            ),
        },
    ) as dag:
        TrimLogOperator(
            task_id="trim", archive=name, min_keep="{{ params.min_keep }}", max_keep="{{ params.max_keep }}"
        )
