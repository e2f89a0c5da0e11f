"""Tasks of archives, as Airflow's database has them."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast_airflow.notes import FAILURE, RUN
from holdfast_airflow.page.activity import ACTIVE, Task, active_tasks, dags_of, open_failures
from tests.support.airflow.database import NOON, AirflowRows

BACKUP = "backup_shop"


@pytest.fixture
def shop(airflow: AirflowRows) -> AirflowRows:
    """With the DAGs of an archive, and others."""
    for name in (BACKUP, "restore_shop"):
        airflow.dag(name, "holdfast", "shop")
    airflow.dag("report_shop", "shop")
    return airflow


def task(**told: Any) -> Task:
    plain = {"archive": "shop", "dag_id": BACKUP, "run_id": "r", "task_id": "t", "map_index": -1, "state": "failed",
             "try_number": 1, "since": None, "ended": None}  # fmt: skip
    return Task(**{**plain, **told})


def test_times_are_told_where_there_are_some() -> None:
    said = task(since=NOON, sentence="no room").describe()
    assert (said["since"], said["ended"], said["sentence"]) == ("2026-03-01T12:00:00+00:00", None, "no room")


def test_dags_belong_to_the_archive_that_tags_and_name_say(shop: AirflowRows) -> None:
    shop.dag("backup_eshop", "holdfast", "eshop", paused=True)
    shop.dag("backup_old", "holdfast", "shop")  # whoever wrote it
    shop.dag("vacuum_shop", "holdfast", "shop", stale=True)
    found = dags_of(shop.session, ["shop"])
    assert [(each.dag_id, each.operation) for each in found.of("shop")] == [
        (BACKUP, "backup"),
        ("restore_shop", "restore"),
    ]
    assert [each.dag_id for each in dags_of(shop.session, ["shop", "eshop"]).of("eshop")] == ["backup_eshop"]
    assert dags_of(shop.session, []).by_id == {}


@pytest.mark.parametrize(
    ("paused", "schedule", "told"),
    [(True, "0 1 * * *", True), (False, "0 1 * * *", False), (True, None, False), (True, "None", False)],
)
def test_only_what_has_a_schedule_is_missed_while_it_is_paused(
    airflow: AirflowRows, paused: bool, schedule: str | None, told: bool
) -> None:
    airflow.dag(BACKUP, "holdfast", "shop", paused=paused, schedule=schedule)
    assert dags_of(airflow.session, ["shop"]).paused("shop") == ([BACKUP] if told else [])


def test_tasks_at_work_are_told_with_the_runs_of_their_jobs(shop: AirflowRows) -> None:
    shop.run(BACKUP, "r1", "running")
    for number, state in enumerate((*ACTIVE, "success", "failed", "skipped", None)):
        shop.task(BACKUP, "r1", f"task {number}", state, queued_dttm=-number)
    shop.note(BACKUP, "r1", "task 1", RUN, {"run": "backup-7", "archive": "shop"})
    shop.note(BACKUP, "r1", "task 2", RUN, "no mapping")
    shop.run("report_shop", "r1", "running")
    shop.task("report_shop", "r1", "mail", "running")
    found = active_tasks(shop.session, dags_of(shop.session, ["shop"]))
    assert {each.state for each in found} == set(ACTIVE)
    assert [each.task_id for each in found] == [f"task {number}" for number in reversed(range(len(ACTIVE)))]
    assert {each.task_id: each.run for each in found if each.run} == {"task 1": "backup-7"}
    assert found[-1].since == NOON


def test_a_note_is_that_of_its_own_mapped_task(shop: AirflowRows) -> None:
    shop.run(BACKUP, "r1", "running")
    for index in (0, 1):
        shop.task(BACKUP, "r1", "drill", "running", map_index=index)
        shop.note(BACKUP, "r1", "drill", RUN, {"run": f"drill-{index}"}, map_index=index)
    found = active_tasks(shop.session, dags_of(shop.session, ["shop"]))
    assert sorted((each.map_index, each.run) for each in found) == [(0, "drill-0"), (1, "drill-1")]


def failures(shop: AirflowRows) -> list[Task]:
    return open_failures(shop.session, dags_of(shop.session, ["shop"]))


def test_a_failure_is_open_until_a_later_run_went_well(shop: AirflowRows) -> None:
    assert failures(shop) == []
    shop.run(BACKUP, "r1", "failed", hours=0)
    shop.task(BACKUP, "r1", "save", "failed", start_date=0, end_date=1, try_number=2)
    shop.task(BACKUP, "r1", "check", "upstream_failed")
    shop.note(BACKUP, "r1", "save", FAILURE, {"sentence": "no room is left", "exit_code": 5})
    shop.note(BACKUP, "r1", "save", RUN, {"run": "backup-7"})
    [found] = failures(shop)
    assert (found.task_id, found.sentence, found.exit_code, found.run) == ("save", "no room is left", 5, "backup-7")
    assert (found.since, found.ended, found.try_number) == (NOON, NOON.replace(hour=13), 2)
    shop.run(BACKUP, "r2", "running", hours=1)
    assert len(failures(shop)) == 1
    shop.run(BACKUP, "r3", "success", hours=2)
    assert failures(shop) == []


def test_failures_of_each_dag_are_told_the_newest_first(shop: AirflowRows) -> None:
    for dag, hours in ((BACKUP, 1), ("restore_shop", 3), ("report_shop", 2)):
        shop.run(dag, "r1", "failed", hours=hours)
        shop.task(dag, "r1", "work", "failed", end_date=hours)
    assert [(each.dag_id, each.sentence, each.exit_code) for each in failures(shop)] == [
        ("restore_shop", "", None),
        (BACKUP, "", None),
    ]
