"""Routes that read: what they ask for, and what they refuse before any store is asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive
from holdfast.archive.format.runs import RunLog
from holdfast.storage import ObjectStore
from holdfast_airflow.assets import record_of
from holdfast_airflow.page.activity import DatabaseScheduler
from holdfast_airflow.page.reading import MOST_RUNS
from locking import Owner, RWLock
from tests.support.airflow.page import Browsed
from tests.support.archives.blocks_without_rows import add

LINE = "/api/archives/shop/sources/shop_db/line"


def test_the_list_has_the_archives_that_the_user_may_see(page: Browsed, configuration: Path) -> None:
    for name in ("shop", "books"):
        page.airflow.asset(record_of(name).uri)
    told = page.get("/api/archives").json()
    assert [each["archive"] for each in told["archives"]] == ["shop"]
    assert told["problem"] == ""
    configuration.write_text("archives: [")
    assert str(configuration) in page.get("/api/archives").json()["problem"]
    page.rights.import_errors = False
    assert page.get("/api/archives").json()["problem"] == ""


def test_the_list_names_the_archive_of_a_dag_if_the_user_may_see_it(page: Browsed) -> None:
    page.airflow.asset(record_of("shop").uri)
    for name in ("shop", "books"):
        page.airflow.dag(f"backup_{name}", "holdfast", name)
    found = [page.get("/api/archives", dag=f"backup_{name}").json()["of_dag"] for name in ("shop", "books")]
    assert found == ["shop", None]


@pytest.mark.parametrize(
    ("methods", "connections", "may"),
    [
        ({"GET"}, True, []),
        ({"GET", "POST RUN"}, True, ["restore"]),
        ({"GET", "PUT"}, False, ["hold"]),
        ({"GET", "PUT"}, True, ["hold", "break"]),
    ],
)
def test_one_archive_is_told_with_what_its_user_may_do(
    page: Browsed, methods: set[str], connections: bool, may: list[str]
) -> None:
    page.rights.methods, page.rights.connections = methods, connections
    told = page.get("/api/archives/shop").json()
    rights = {name: name in may for name in ("restore", "hold", "break")}
    assert (told["archive"], told["rights"]) == ("shop", {**rights, "start": []})
    assert page.get("/api/archives/books").status_code == 403


def test_a_dag_can_be_started_from_the_page_by_who_may_create_its_runs(page: Browsed) -> None:
    for operation in ("backup", "restore_drill"):
        page.airflow.dag(f"{operation}_shop", "holdfast", "shop")
    page.rights.dags.add("restore_drill_shop")
    assert page.get("/api/archives/shop").json()["rights"]["start"] == ["restore_drill_shop"]


def test_backups_by_a_command_stand_among_those_of_tasks(page: Browsed, store: ObjectStore) -> None:
    add(Archive.open(store), make_block())
    [found] = page.get("/api/archives/shop/now").json()["backups"]["shop_db"]
    assert (found["state"], found["kind"], found["commit"], found["task"]) == ("success", "full", 1, None)


@pytest.mark.parametrize("path", ["now", "plans/compaction", "progress?run=r", "sources/shop_db/line"])
def test_one_that_the_file_does_not_have_cannot_be_looked_at(page: Browsed, configuration: Path, path: str) -> None:
    configuration.write_text("archives: {}")
    answer = (
        page.get(f"/api/archives/shop/{path}") if "?" not in path else page.ask("GET", f"/api/archives/shop/{path}")
    )
    assert answer.status_code == 404
    assert answer.json()["error"].endswith("has no archive shop: its record is all there is")


def test_an_archive_is_looked_at_with_the_states_of_its_locks_owners(page: Browsed, store: ObjectStore) -> None:
    page.airflow.dag("nightly")
    page.airflow.run("nightly", "r1", "failed")
    page.airflow.task("nightly", "r1", "save", "success", map_index=3)
    page.airflow.task("nightly", "r1", "save", "failed")
    owner = Owner(scope="task", dag_id="nightly", run_id="r1", task_id="save")
    with RWLock(store, "maintenance", owner=owner).write(purpose="vacuum"):
        told = page.get("/api/archives/shop/now").json()
    scheduler = DatabaseScheduler(page.airflow.session)
    assert (scheduler.run_state("nightly", "r1"), scheduler.run_state("nightly", "r2")) == ("failed", None)
    assert (scheduler.is_paused("nightly"), scheduler.is_paused("gone")) == (False, False)
    states = [scheduler.task_state("nightly", "r1", "save", index) for index in (-1, 3, 4)]
    assert states == ["failed", "success", None]
    [lock] = told["locks"]
    assert (lock["resource"], lock["airflow_state"]) == ("maintenance", "failed")
    assert told["record"]["name"] == told["entry"]["archive"] == "shop"


def test_progress_is_told_for_each_run_that_is_asked_for(page: Browsed, store: ObjectStore) -> None:
    RunLog(store, "backup-1", "backup").progress("reading tables")
    told = page.get("/api/archives/shop/progress", run=["backup-1", "gone"]).json()
    assert (told["backup-1"]["step"], told["gone"]) == ("reading tables", None)
    assert page.get("/api/archives/shop/progress", run=["r"] * (MOST_RUNS + 1)).status_code == 422
    assert page.get("/api/archives/shop/progress").status_code == 422


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"start": "2026-03-01T12:00:00"}, "write times with their zone, such as 2026-03-01T12:00:00Z"),
        (
            {"start": "2026-03-01T12:00:00Z", "end": "2026-03-01T12:00:00Z"},
            "the line's end must be later than its start",
        ),
        ({"start": "2026-03-01T12:00:00Z", "end": "2026-03-01T12:30:00+01:00"}, "the line's end must be later"),
        ({"parts": 0}, ""),
        ({"parts": 5001}, ""),
        ({"start": "soon"}, ""),
    ],
)
def test_a_line_between_no_two_times_is_refused(
    page: Browsed, store: ObjectStore, query: dict[str, Any], said: str
) -> None:
    answer = page.get(LINE, **query)
    assert answer.status_code == 422
    assert said in str(answer.json())


def test_a_line_and_a_moment_of_a_source(page: Browsed, store: ObjectStore) -> None:
    at = datetime.now(UTC) - timedelta(hours=1)
    add(Archive.open(store), make_block(at=at))
    told = page.get(LINE, start=(at - timedelta(days=1)).isoformat(), end=(at + timedelta(minutes=1)).isoformat())
    assert told.status_code == 200, told.text
    assert "now" in told.json()
    moment = page.get("/api/archives/shop/sources/shop_db/moment", at="latest").json()
    assert moment["commit"] == 1
    assert page.get("/api/archives/shop/sources/shop_db/moment", at="").status_code == 422
    assert page.get("/api/archives/shop/sources/no%20name/moment", at="latest").status_code == 422


@pytest.mark.parametrize(("operation", "status"), [("compaction", 200), ("truncation", 409), ("vacuum", 422)])
def test_plans_are_made_of_what_may_be_planned(page: Browsed, store: ObjectStore, operation: str, status: int) -> None:
    assert page.get(f"/api/archives/shop/plans/{operation}").status_code == status
