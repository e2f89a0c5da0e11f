"""DAGs of backups: full ones and those of changes, their sources and forms."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import ParamValidationError

from holdfast_airflow.assets import backups_of, record_of
from tests.support.airflow.dag_files import TWO, Read, dag

pytestmark = pytest.mark.slow


def test_changes_have_a_dag_of_their_own_and_both_can_be_told_otherwise_by_hand(read: Read) -> None:
    bag = read(TWO)
    kinds = {name: dag(bag, name).params["kind"] for name in ("backup_shop", "backup_big", "changes_big")}
    assert kinds == {"backup_shop": "full", "backup_big": "full", "changes_big": "changes"}
    assert dag(bag, "changes_big").params.get_param("kind").resolve("full") == "full"
    with pytest.raises(ParamValidationError):
        dag(bag, "changes_big").params.get_param("kind").resolve("incremental")
    # They differ in nothing else: the lock of the source, which both take, keeps them apart.
    assert sorted(dag(bag, "changes_big").task_ids) == sorted(dag(bag, "backup_big").task_ids)


def test_other_dags_can_be_scheduled_on_the_backups_of_an_archive(read: Read) -> None:
    bag = read(TWO)
    for name in ("backup_big", "changes_big"):
        outlets = {task.task_id: task.outlets for task in dag(bag, name).tasks}
        each = {f"backup_{it}": [backups_of("big"), backups_of("big", it), record_of("big")] for it in "ab"}
        assert outlets == {"choose_sources": [], **each}
    assert (backups_of("big").name, backups_of("big").uri) == ("holdfast_big", "x-holdfast://big")


def test_form_of_a_backup_offers_what_there_is(read: Read) -> None:
    params = dag(read(TWO), "backup_big").params
    assert params.get_param("source").schema["enum"] == ["all", "a", "b"]
    assert params["source"] == "all"
    assert dag(read(TWO), "backup_shop").params["source"] == "shop_db"
    with pytest.raises(ParamValidationError):
        params.get_param("source").resolve("c")
    with pytest.raises(ParamValidationError):
        params.get_param("tables").resolve("a.*")
    assert params.get_param("tables").resolve(["a.*"]) == ["a.*"]


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [("all", ["backup_a", "backup_b"]), ("b", ["backup_b"])],
)
def test_form_chooses_among_the_sources(read: Read, wanted: str, chosen: list[str]) -> None:
    task: Any = dag(read(TWO), "backup_big").get_task("choose_sources")
    assert task.python_callable(*task.op_args, params={"source": wanted}) == chosen


def test_an_archive_without_sources_has_no_backups(read: Read) -> None:
    assert not {"backup_kept", "changes_kept", "changes_shop"} & set(read(TWO).dags)
