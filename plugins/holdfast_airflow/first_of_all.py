"""Weight of the tasks that go before all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow.task.priority_strategy import PriorityWeightStrategy

if TYPE_CHECKING:
    from airflow.models.taskinstance import TaskInstance

FIRST_OF_ALL: Final = f"{__name__}.FirstOfAll"
"""As a `weight_rule`: a lock that waits for a slot is lost, or keeps others out after the work."""

_GREATEST: Final = 2**31 - 1
"""That Airflow's database can hold."""


class FirstOfAll(PriorityWeightStrategy):
    """Rule that gives a task the greatest weight, and the tasks before it none of that.

    By Airflow's own rules, a task has at least the weight of each task after it: a great `priority_weight` of the task
    that gives a lock back would lift all the work before it just as much.
    """

    def get_weight(self, ti: TaskInstance) -> int:
        """Return the greatest weight."""
        return _GREATEST
