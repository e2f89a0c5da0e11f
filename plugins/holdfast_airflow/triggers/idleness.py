"""Time for which nothing of a run has been at work."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from locking.one_line import line_logger

if TYPE_CHECKING:
    from collections.abc import Sequence

log = line_logger(__name__)

AT_WORK: Final = (
    "scheduled",
    "queued",
    "running",
    "restarting",
    "deferred",
    "up_for_reschedule",
    "awaiting_input",
)
"""States of tasks that run, are about to, or wait for what may run elsewhere (airflow.utils.state, 3.3).

A task that is scheduled waits for a slot: a busy Airflow is no idle run.
"""


class RunIdleness:
    """Lookup of how long a run has been idle.

    :param keepers: ids of tasks that do not count: those that keep locks.
    """

    def __init__(self, *, dag_id: str, run_id: str, keepers: Sequence[str]) -> None:
        self._dag_id = dag_id
        self._run_id = run_id
        self._keepers = list(keepers)
        self._since: float | None = None

    def look(self) -> float:
        """Ask Airflow, and return the seconds of idleness."""
        now = time.monotonic()
        if self._is_at_work():
            self._since = None
            return 0.0
        if self._since is None:
            self._since = now
        return now - self._since

    def _is_at_work(self) -> bool:
        try:
            return self._count() > self._count(self._keepers)
        except Exception as error:  # noqa: BLE001 - without an answer, the run counts as being at work
            log.warning("Airflow could not be asked what is at work of run %s: %s", self._run_id, error)
            return True

    def _count(self, tasks: list[str] | None = None) -> int:
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        return RuntimeTaskInstance.get_ti_count(
            self._dag_id, task_ids=tasks, run_ids=[self._run_id], states=list(AT_WORK)
        )
