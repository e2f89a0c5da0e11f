"""The operators DAG authors import."""

from __future__ import annotations

from holdfast_airflow.operators.acquire_lock import AcquireLock
from holdfast_airflow.operators.archive_lock import archive_lock
from holdfast_airflow.operators.backup import BackupOperator
from holdfast_airflow.operators.keep_lock import KeepLock
from holdfast_airflow.operators.reap_locks import ReapLocks
from holdfast_airflow.operators.release_lock import ReleaseLock
from holdfast_airflow.operators.restore import RestoreOperator

__all__ = [
    "AcquireLock",
    "BackupOperator",
    "KeepLock",
    "ReapLocks",
    "ReleaseLock",
    "RestoreOperator",
    "archive_lock",
]
