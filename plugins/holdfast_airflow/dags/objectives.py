"""DAGs `objectives_<archive>`: fail while an objective of a source in archives.yaml is missed."""

from __future__ import annotations

from datetime import timedelta

from holdfast_airflow.archives import archive_dag, configured_archives
from holdfast_airflow.assets import record_of
from holdfast_airflow.operators.check_objectives import SOONEST, CheckObjectivesOperator, judging_interval

DOC = """
Judges the `objectives` of each source of the archive **{name}** ({place}): the age of the newest restorable moment
(`rpo`), the time that the last drill took (`rto`), and how long ago a drill went well and all files were read. A run
fails while one is missed. `holdfast status {name} --check` judges the same with Airflow down.

It reads the archive, not Airflow: backups that are paused, broken or missing are noticed by the moments that they did
not add.
"""

for name, archive in configured_archives().items():
    if (interval := judging_interval(archive)) is not None:
        with archive_dag(
            "objectives",
            name,
            archive,
            doc=DOC,
            tag="objectives",
            description=f"Fails while an objective of the archive {name} is missed",
            schedule=interval,
            retry_delay=timedelta(minutes=1),
            dagrun_timeout=SOONEST,
        ):
            CheckObjectivesOperator(task_id="judge", archive=name, outlets=[record_of(name)])
