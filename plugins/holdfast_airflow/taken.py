"""The locks that an AcquireLock of the run has taken, as the tasks behind it find them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context


def taken_locks(context: Context, operator: BaseOperator, acquire: str) -> list[dict[str, Any]]:
    """Return what an :class:`AcquireLock` has returned, once for each lock: its `url`, `handle` and `max_hold_s`.

    In a mapped task group, each instance of a task has the lock of its own instance of the group, and no other one's.
    Behind an AcquireLock that is mapped itself, or in a group that the operator is not in, it has all of them.

    :param operator: the one that asks.
    :param acquire: the task id of the AcquireLock.
    """
    task = context["ti"]
    group = operator.get_closest_mapped_task_group()
    if group is not None and _is_within(operator, acquire, group):
        found = task.xcom_pull(task_ids=acquire, map_indexes=task.map_index)
    else:
        found = task.xcom_pull(task_ids=acquire)
    return [found] if isinstance(found, dict) else [each for each in found or () if each]


def _is_within(operator: BaseOperator, acquire: str, group: Any) -> bool:
    return operator.dag.get_task(acquire).get_closest_mapped_task_group() is group
