"""DAGs `backup_<archive>` and `changes_<archive>`: back up the sources of each archive in archives.yaml.

Both take the same lock of a source, so that a full backup and one of changes never meet; the second waits
without a worker slot. Runs that were missed meanwhile are not made up for: the next one backs up all that has changed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, Param

from holdfast.operations.requests.backup import BackupRequest
from holdfast_airflow.archives import ALL, archive_dag, choose_tasks, configured_archives
from holdfast_airflow.assets import backups_of, record_of
from holdfast_airflow.forms import form_of, from_form
from holdfast_airflow.operators.backup import BackupOperator

if TYPE_CHECKING:
    from holdfast.config.archives_model import ArchiveConfig

WHAT = {
    "full": "Adds a full backup of each source in one commit",
    "changes": "Adds what each source has changed since the last backup (first, and where that is unknown, a full "
    "backup, and the task's log says why), commit after commit",
}

DOC = """
{what}, to the archive **{name}** ({place}).

Runs on the schedule `{kind}` of archives.yaml ({schedule}), and whenever it is triggered. Each task takes the
archive's locks first (waiting is deferred), runs Spark, and reads its commit back from the archive. Each task that
succeeds updates the asset `holdfast_{name}`, on which other DAGs can be scheduled; its event says what the backup was.
"""


def backup_dag(operation: str, name: str, archive: ArchiveConfig, kind: str) -> DAG:
    sources = sorted(archive.sources)
    with archive_dag(
        operation,
        name,
        archive,
        doc=DOC,
        terms={"what": WHAT[kind], "kind": kind},
        tag="backup",
        schedule_key=kind,
        retry_delay=timedelta(minutes=2),
        description=f"Back up into the archive {name}" + (", only what has changed" if kind == "changes" else ""),
        params={
            "source": Param(
                ALL if len(sources) > 1 else sources[0],
                enum=[ALL, *sources] if len(sources) > 1 else sources,
                title="Source",
                description="The database of archives.yaml to back up.",
            ),
            **form_of(BackupRequest, kind=kind),
        },
    ) as dag:
        backups = {
            source: [
                BackupOperator(
                    task_id=f"backup_{source}",
                    archive=name,
                    source=source,
                    **from_form(dag, BackupRequest),
                    outlets=[backups_of(name), backups_of(name, source), record_of(name)],
                )
            ]
            for source in sources
        }
        choose_tasks(backups)
    return dag


for archive_name, archive_config in configured_archives().items():
    if archive_config.sources:
        backup_dag("backup", archive_name, archive_config, "full")
        if archive_config.schedule.changes:
            backup_dag("changes", archive_name, archive_config, "changes")
