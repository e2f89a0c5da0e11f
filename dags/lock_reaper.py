"""DAGs `lock_reaper_<archive>`: end the locks of each archive in archives.yaml that nobody will give back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG

from holdfast_airflow.archives import configured_archives
from holdfast_airflow.operators.reap_locks import ReapLocks

if TYPE_CHECKING:
    from holdfast.config import ArchiveConfig

INTERVAL = timedelta(minutes=10)

DOC = """
Ends the locks in the archive **{name}** ({place}) whose lease and grace are over, or whose process is proved gone.

Nothing depends on it: whoever wants a lock does the same. It keeps the archive free of what is left where nobody
comes by. A healthy lock never goes; to end one, see `holdfast locks break`.
"""


def build(name: str, archive: ArchiveConfig) -> DAG:
    """Make the DAG of one archive."""
    with DAG(
        dag_id=f"lock_reaper_{name}",
        description=f"End what is over among the locks of the archive {name}",
        doc_md=DOC.format(name=name, place=archive.url),
        schedule=INTERVAL,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=INTERVAL,
        tags=["holdfast", "locks", name],
    ) as dag:
        ReapLocks(task_id="reap", archive=name)
    return dag


for archive_name, archive_config in configured_archives().items():
    if archive_config.url:
        build(archive_name, archive_config)
