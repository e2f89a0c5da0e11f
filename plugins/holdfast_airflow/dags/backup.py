"""DAGs `backup_<archive>` and `changes_<archive>`: back up the sources of each archive in archives.yaml.

Both take the same lock of a source, so that a full backup and one of changes never meet; the second waits
without a worker slot. Runs that were missed meanwhile are not made up for: the next one backs up all that has changed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, Param, task

from holdfast.operations.requests.backup import BackupRequest
from holdfast_airflow.archives import ALL, archive_dag, configured_archives
from holdfast_airflow.assets import backups_of, record_of
from holdfast_airflow.operators.backup import BackupOperator
from holdfast_airflow.requests import form_of, from_form

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
    """Make a DAG of one archive.

    :param kind: of the backups it makes by default.
    """
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
        backups = [
            BackupOperator(
                task_id=f"backup_{source}",
                archive=name,
                source=source,
                **from_form(dag, BackupRequest),
                outlets=[backups_of(name), backups_of(name, source), record_of(name)],
            )
            for source in sources
        ]
        if len(sources) > 1:
            choose_sources(sources) >> backups
    return dag


@task.branch(task_id="choose_sources")
def choose_sources(sources: list[str], params: dict[str, str] | None = None) -> list[str]:
    """Return the tasks of the sources that the form asks for."""
    chosen = (params or {}).get("source", ALL)
    return [f"backup_{source}" for source in sources if chosen in (ALL, source)]


for archive_name, archive_config in configured_archives().items():
    if archive_config.sources:
        backup_dag("backup", archive_name, archive_config, "full")
        if archive_config.schedule.changes:
            backup_dag("changes", archive_name, archive_config, "changes")
