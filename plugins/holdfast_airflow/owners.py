"""Who a lock belongs to, in Airflow's terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from locking import Owner

if TYPE_CHECKING:
    from airflow.sdk import Context


def owner_of(context: Context, *, scope: Literal["task", "run"]) -> Owner:
    """Return the running task as the owner of a lock.

    :param scope: `task` for a lock that ends with the task, `run` for one that outlives it.
    """
    task = context["ti"]
    return Owner(
        scope=scope,
        dag_id=task.dag_id,
        run_id=task.run_id,
        task_id=task.task_id,
        map_index=task.map_index,
    )
