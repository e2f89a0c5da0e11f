"""Airflow's local executor for tests: its tasks are forks of a process that has imported what DAG files need.

Else each task takes a second or two for that. It is named by Airflow's setting `executor`.
"""

from __future__ import annotations

from importlib import import_module

from airflow.executors.local_executor import LocalExecutor

_IMPORTS = (
    "airflow.dag_processing.dagbag",
    "airflow.providers.standard.operators.python",
    "airflow.sdk.execution_time.supervisor",
    "airflow.sdk.execution_time.task_runner",
    "holdfast.archive",
    "holdfast.operations.job_process",
    "holdfast.postgresql.connection.session",
    "holdfast.storage",
    "holdfast_airflow.archives",
    "holdfast_airflow.decorators",
    "holdfast_airflow.operators",
    "holdfast_airflow.sensors",
)


class PreparedExecutor(LocalExecutor):
    """Local executor whose tasks begin at once."""

    def start(self) -> None:
        """Import, and start the processes of tasks."""
        for module in _IMPORTS:
            import_module(module)
        super().start()
