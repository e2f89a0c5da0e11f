"""What `protected` puts around tasks, and what a mark's task does."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, task

from holdfast.operations.marks import SetMark
from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.operators import MarkOperator, protected
from tests.support.operators import run


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


def test_a_mark_is_set_in_the_source_and_left_in_each_replica(
    store: ObjectStore, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def set_mark(archive: Any, stores: Any, address: Any, source: str, name: str, **more: Any) -> SetMark:
        asked.update(stores=[each.url for each in stores], source=source, name=name, **more)
        return SetMark("0/1", archive.identity.created, "no pg_dump")

    monkeypatch.setattr("holdfast.operations.marks.set_mark", set_mark)
    done = run(MarkOperator(task_id="mark", archive="shop", name="before 4.2"), context)
    assert asked["stores"] == [store.url]
    assert (asked["source"], asked["name"], asked["tables"]) == ("shop_db", "before 4.2", ["*.*"])
    assert (done["mark"], done["position"], done["schema_note"]) == ("before 4.2", "0/1", "no pg_dump")


def test_a_name_that_means_something_else_is_refused_for_good(store: ObjectStore, context: dict[str, Any]) -> None:
    with pytest.raises(JobRefused, match="means something else"):
        run(MarkOperator(task_id="mark", archive="shop", name="latest"), context)
