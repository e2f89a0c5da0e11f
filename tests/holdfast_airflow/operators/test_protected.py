"""Tasks between two marks."""

from __future__ import annotations

from airflow.sdk import DAG, task

from holdfast_airflow.operators import MarkOperator, protected


def test_tasks_of_a_block_are_between_two_marks_and_their_backups() -> None:
    @task
    def migrate() -> None: ...

    with DAG("migration") as dag, protected("4.2", archive="shop", source="shop_db", job_executor="inline"):
        migrate()

    def upstream(name: str) -> set[str]:
        found = dag.get_task(f"protected.{name}").upstream_task_ids
        return {each.removeprefix("protected.") for each in found}

    assert upstream("mark_before") == {"backup_before"}
    assert upstream("migrate") == {"mark_before"}
    assert upstream("backup_after") == {"mark_before", "migrate"}
    assert upstream("mark_after") == {"mark_before", "backup_after"}
    assert upstream("backup_mark_after") == {"mark_before", "mark_after"}
    behind = ("backup_after", "mark_after", "backup_mark_after")
    assert all(dag.get_task(f"protected.{name}").is_teardown for name in behind)
    # A run fails where what decides it does: its leaf that is no teardown.
    assert upstream("outcome") == {"migrate", *behind}
    tasks = [
        dag.get_task(f"protected.{each}") for each in ("mark_before", "mark_after", "backup_before", "backup_after")
    ]
    assert [getattr(each, "name" if isinstance(each, MarkOperator) else "kind") for each in tasks] == [
        "before 4.2",
        "after 4.2",
        "changes",
        "changes",
    ]
