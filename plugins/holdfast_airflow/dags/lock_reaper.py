"""DAGs `lock_reaper_<archive>`: removal of abandoned locks of each archive in archives.yaml."""

from __future__ import annotations

from datetime import timedelta

from holdfast_airflow.archives import archive_dag, configured_archives, replicas_by_suffix
from holdfast_airflow.operators.reap_locks import INTERVAL, ReapLocksOperator, reaper_interval

DOC = """
Ends the locks in the archive **{name}** ({place}) whose lease and grace are over, or whose process is proved gone.

Nothing depends on it: a job that takes a lock does the same. It removes the locks that no other job meets. A healthy
lock never goes; to end one, see `holdfast locks break`.
"""

archives = configured_archives()

for name, archive in archives.items():
    with archive_dag(
        "lock_reaper",
        name,
        archive,
        doc=DOC,
        tag="locks",
        description=f"End what is over among the locks of the archive {name}",
        schedule=reaper_interval(len(archives)),
        retry_delay=timedelta(minutes=1),
        dagrun_timeout=INTERVAL,
    ) as dag:
        for end, replica in replicas_by_suffix(archive).items():
            ReapLocksOperator(task_id=f"reap{end}", archive=name, replica=replica)
