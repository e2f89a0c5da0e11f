"""Operators that DAG authors import.

Imports everything else in `holdfast_airflow`.
"""

from __future__ import annotations

from holdfast_airflow.operators.acquire_lock import AcquireLockOperator
from holdfast_airflow.operators.archive_lock import archive_lock
from holdfast_airflow.operators.backup import BackupOperator
from holdfast_airflow.operators.check_objectives import CheckObjectivesOperator
from holdfast_airflow.operators.compact import CompactOperator
from holdfast_airflow.operators.drill import DrillOperator
from holdfast_airflow.operators.keep_lock import KeepLockOperator
from holdfast_airflow.operators.mark import MarkOperator
from holdfast_airflow.operators.migrate import MigrateOperator
from holdfast_airflow.operators.protected import protected
from holdfast_airflow.operators.reap_locks import ReapLocksOperator
from holdfast_airflow.operators.recover_replicas import RecoverReplicasOperator
from holdfast_airflow.operators.release_lock import ReleaseLockOperator
from holdfast_airflow.operators.restore import RestoreOperator
from holdfast_airflow.operators.sync_replica import SyncReplicaOperator
from holdfast_airflow.operators.trim_log import TrimLogOperator
from holdfast_airflow.operators.truncate import TruncateOperator
from holdfast_airflow.operators.vacuum import VacuumOperator
from holdfast_airflow.operators.verify import VerifyOperator

# Earlier names.
AcquireLock = AcquireLockOperator
CheckObjectives = CheckObjectivesOperator
KeepLock = KeepLockOperator
ReapLocks = ReapLocksOperator
RecoverReplicas = RecoverReplicasOperator
ReleaseLock = ReleaseLockOperator
SyncReplica = SyncReplicaOperator
TrimLog = TrimLogOperator

__all__ = [
    "AcquireLock",
    "AcquireLockOperator",
    "BackupOperator",
    "CheckObjectives",
    "CheckObjectivesOperator",
    "CompactOperator",
    "DrillOperator",
    "KeepLock",
    "KeepLockOperator",
    "MarkOperator",
    "MigrateOperator",
    "ReapLocks",
    "ReapLocksOperator",
    "RecoverReplicas",
    "RecoverReplicasOperator",
    "ReleaseLock",
    "ReleaseLockOperator",
    "RestoreOperator",
    "SyncReplica",
    "SyncReplicaOperator",
    "TrimLog",
    "TrimLogOperator",
    "TruncateOperator",
    "VacuumOperator",
    "VerifyOperator",
    "archive_lock",
    "protected",
]
