"""Tasks that change a source between two marks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import TaskGroup

from holdfast_airflow.operators.backup import BackupOperator
from holdfast_airflow.operators.mark import MarkOperator

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def protected(
    name: str,
    *,
    archive: str,
    source: str | None = None,
    source_conn_id: str | None = None,
    group_id: str = "protected",
    **backup: Any,
) -> Iterator[TaskGroup]:
    """Run the tasks of the block between two marks of a source.

    The tasks change the source, such as a migration; both marks can be restored exactly.

        with protected("4.2", archive="shop", source="shop_db"):
            migrate()

    Makes a group with six more tasks: `backup_before` and `mark_before`, without which no task of the block runs; then,
    even where the block failed, `backup_after` with the tables that start over, `mark_after` and `backup_mark_after`;
    and `outcome`, which succeeds where all of it has: what follows the group follows that. The moments are called
    `before <name>` and `after <name>`. No lock is held while the block runs, so scheduled backups go on.

    :param name: of what is done; it may be a template.
    :param archive: a name in archives.yaml.
    :param source: the source in the archive; not needed where there is only one.
    :param source_conn_id: the Airflow connection to it; without it, what archives.yaml says.
    :param group_id: of the group of tasks.
    :param backup: what else :class:`BackupOperator` takes, such as `lock_wait` and `spark_conn_id`.
    """
    which: dict[str, Any] = {"archive": archive, "source": source, "source_conn_id": source_conn_id}

    def back_up(task_id: str) -> BackupOperator:
        return BackupOperator(task_id=task_id, kind="changes", **which, **backup)

    with TaskGroup(group_id) as group:
        mark = MarkOperator(task_id="mark_before", name=f"before {name}", **which)
        back_up("backup_before") >> mark
        after, last = back_up("backup_after"), back_up("backup_mark_after")
        mark_after = MarkOperator(task_id="mark_after", name=f"after {name}", **which)
        own = {*group.children}
        for task in (after, mark_after, last):  # they run even where the block failed, and so say nothing of it
            task.as_teardown(setups=mark)
        with after:
            yield group
        outcome = EmptyOperator(task_id="outcome")
        after >> mark_after >> last >> outcome
        [after, mark_after] >> outcome
        for label in group.children.keys() - own - {outcome.task_id}:
            group.children[label] >> outcome
