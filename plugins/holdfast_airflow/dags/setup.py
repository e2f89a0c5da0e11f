"""DAGs `setup_<archive>`: from an archives.yaml to the first backups, for each archive in it."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param, task

from holdfast.common.errors import RefusedError
from holdfast_airflow.archives import archive_dag, configured_archives
from holdfast_airflow.assets import backups_of, record_of
from holdfast_airflow.exceptions import in_airflow_terms
from holdfast_airflow.hooks import HoldfastHook
from holdfast_airflow.operators.backup import BackupOperator
from locking.one_line import line_logger

DOC = """
Creates the archive **{name}** ({place}) where it is not there yet, looks whether each of its sources can be backed up,
and makes the first backup of each. An archive with replicas it does not create: its first task says which commands do.
A task that fails says what is missing, and what to do: do that, and clear the task or trigger this again. What is done
already is not done twice; a source that has backups gets one more.

With `admin_connection`, the sources' roles are first given what they lack: the task's log has each statement. The last
task says which DAGs to unpause: Airflow starts a DAG with a schedule only then.
"""

SCHEDULED = (
    "backup|changes|compaction|truncation|vacuum|archive_verification|restore_drill|objectives|lock_reaper|"
    "replica_sync|replica_log_trimming|lost_replica_recovery"
)
"""Operations whose DAGs may have a schedule."""

log = line_logger("airflow.task")


@task
def create(archive: str) -> bool:
    """Create the archive, and return whether it was missing."""
    with in_airflow_terms():
        hook = HoldfastHook(archive)
        is_new = hook.create(archive)
        log.info("%s %s", "created archive" if is_new else "the archive is there:", hook.config.location())
    return is_new


@task
def check(archive: str, source: str, params: dict[str, Any] | None = None) -> None:
    """Fail with all that a source lacks for a backup."""
    admin = (params or {}).get("admin_connection")
    with in_airflow_terms():
        hook = HoldfastHook(archive)
        for plan in hook.set_up_source(source, admin) if admin else ():
            for words in (words for part in plan.parts for change in part.changes for words in change.statements):
                log.info("as %s: %s", admin, words)
            for note in plan.notes:
                log.warning("%s", note)
        readiness = hook.check_source(source)
        for warning in readiness.warnings:
            log.warning("%s: %s", warning.what, warning.do)
        if readiness.problems:
            raise RefusedError("; ".join(f"{problem.what}: {problem.do}" for problem in readiness.problems))
    log.info("%s can be backed up: PostgreSQL %s", source, readiness.facts["server"])


@task
def unpause(archive: str) -> None:
    """Say how to unpause the DAGs of the archive."""
    log.info(
        "The first backup is made. Now unpause the DAGs of %s that have a schedule, by their switches or by: "
        "airflow dags unpause --yes --treat-dag-id-as-regex '^((%s)_%s|holdfast_configuration)$'",
        archive,
        SCHEDULED,
        archive,
    )


for name, configured in configured_archives().items():
    if not configured.sources:
        continue
    with archive_dag(
        "setup",
        name,
        configured,
        doc=DOC,
        tag="setup",
        description=f"Create the archive {name}, check its sources, and make the first backup",
        params={
            "admin_connection": Param(
                None,
                type=["null", "string"],
                title="Connection of an administrator",
                description="Of a user of the sources' server who may give rights, such as a superuser: the sources' "
                "roles get what backups need. Empty: nothing is given.",
            ),
        },
    ):
        created, last = create(name), unpause(name)
        for source in sorted(configured.sources):
            backup = BackupOperator(
                task_id=f"backup_{source}",
                archive=name,
                source=source,
                kind="changes" if configured.schedule.changes else "full",
                outlets=[backups_of(name), backups_of(name, source), record_of(name)],
            )
            created >> check.override(task_id=f"check_{source}")(name, source) >> backup >> last
