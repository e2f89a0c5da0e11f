"""Runbooks for failures of tasks, by the DAG's operation and the exit code."""

from __future__ import annotations

from typing import Final

FOLDER: Final = "docs/runbooks"
"""Where they are in the project; `[holdfast] runbooks_url` names the place that a team reads them at."""

_BY_OPERATION: Final = {
    "backup": "backup-failed",
    "changes": "backup-failed",
    "restore_drill": "drill-failed",
    "archive_verification": "damage",
    "replica_sync": "quorum-cannot-be-reached",
    "lost_replica_recovery": "a-replica-is-lost",
    "vacuum": "vacuum",
    "truncation": "free-space",
    "restore": "restore",
}

_BY_OPERATOR: Final = {
    "BackupOperator": "backup",
    "DrillOperator": "restore_drill",
    "RecoverReplicasOperator": "lost_replica_recovery",
    "RestoreOperator": "restore",
    "SyncReplicaOperator": "replica_sync",
    "TruncateOperator": "truncation",
    "VacuumOperator": "vacuum",
    "VerifyOperator": "archive_verification",
}
"""Operations by the names of operators, which may be in any DAG."""

_BUSY = 3


def runbook_for(operation: str, exit_code: int | None) -> str | None:
    """Return a runbook's name, by a DAG's operation; None where there is none."""
    return "a-lock-is-held" if exit_code == _BUSY else _BY_OPERATION.get(operation)


def operation_of_task(task: object) -> str | None:
    """Return a task's operation; None for operators of others."""
    return next((_BY_OPERATOR[kind.__name__] for kind in type(task).__mro__ if kind.__name__ in _BY_OPERATOR), None)


def operation_of(dag_id: str, archive: str | None) -> str:
    """Return the operation of a DAG that archives.yaml makes; of another DAG, its id.

    :param archive: its name; where the id does not end with it, the operation is the longest that the id can mean.
    """
    if archive is not None and dag_id.endswith(f"_{archive}"):
        return dag_id.removesuffix(f"_{archive}")
    return max(
        (operation for operation in _BY_OPERATION if dag_id.startswith(f"{operation}_")), key=len, default=dag_id
    )
