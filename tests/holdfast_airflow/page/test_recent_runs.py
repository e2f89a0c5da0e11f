"""Backups and drills of the last 30 days."""

from __future__ import annotations

from typing import Any

from bench.support.blocks import make_block
from holdfast.archive import Archive
from holdfast.storage import ObjectStore
from holdfast_airflow.notes import FAILURE, RUN
from holdfast_airflow.page import recent_runs
from holdfast_airflow.page.activity import dags_of
from holdfast_airflow.page.recent_runs import DAYS, recent_backups, recent_days, with_blocks
from tests.support.airflow.database import NOON, AirflowRows
from tests.support.archives.blocks_without_rows import add

SOURCES = ("crm", "shop_db")


def ran(airflow: AirflowRows, run: str, task: str, state: str, *, hours: float, dag: str = "backup_shop") -> None:
    airflow.run(dag, run, state, hours=hours)
    airflow.task(dag, run, task, state, start_date=hours, end_date=hours + 0.5, duration=1800.0)


def dags(airflow: AirflowRows) -> list[Any]:
    for operation in ("backup", "changes", "restore_drill", "vacuum"):
        airflow.dag(f"{operation}_shop", "holdfast", "shop")
    return dags_of(airflow.session, ["shop"]).of("shop")


def test_each_day_has_what_went_well_and_what_failed(airflow: AirflowRows) -> None:
    known = dags(airflow)
    ran(airflow, "r1", "backup_shop_db", "success", hours=-25)
    ran(airflow, "r2", "backup_shop_db", "failed", hours=-24, dag="changes_shop")
    ran(airflow, "r3", "drill_shop_db", "success", hours=-1, dag="restore_drill_shop")
    ran(airflow, "r4", "backup_crm", "success", hours=-1)
    ran(airflow, "r5", "vacuum", "failed", hours=-1, dag="vacuum_shop")
    ran(airflow, "r6", "backup_crm", "success", hours=-24 * DAYS - 2)
    found = recent_days(airflow.session, known, SOURCES, NOON)
    assert [each["day"] for each in found["crm"]][-2:] == ["2026-02-28", "2026-03-01"]
    assert len(found["crm"]) == DAYS
    assert [(each["good"], each["failed"]) for each in found["shop_db"]][-3:] == [(0, 0), (1, 1), (1, 0)]
    assert sum(each["good"] + each["failed"] for each in found["crm"]) == 1


def test_backups_are_told_the_newest_first_with_what_they_did_or_why_not(airflow: AirflowRows) -> None:
    known = dags(airflow)
    ran(airflow, "r1", "backup_shop_db", "success", hours=-3)
    airflow.note("backup_shop", "r1", "backup_shop_db", "return_value", {"kind": "full", "bytes": 9, "commit": 4})
    airflow.note("backup_shop", "r1", "backup_shop_db", RUN, {"run": "backup-1"})
    ran(airflow, "r2", "backup_shop_db", "failed", hours=-2, dag="changes_shop")
    airflow.note("changes_shop", "r2", "backup_shop_db", FAILURE, {"sentence": "no room", "exit_code": 5})
    airflow.run("changes_shop", "r3", "running", hours=-1)
    airflow.task("changes_shop", "r3", "backup_shop_db", "running", start_date=-1)
    airflow.task("backup_shop", "r1", "backup_crm", "skipped", start_date=-3)
    found = recent_backups(airflow.session, known, SOURCES, NOON)
    assert found["crm"] == []
    told = [
        (each["state"], each["seconds"], each["kind"], each["bytes"], each["sentence"]) for each in found["shop_db"]
    ]
    assert told == [
        ("running", None, None, None, ""),
        ("failed", 1800.0, None, None, "no room"),
        ("success", 1800.0, "full", 9, ""),
    ]
    assert found["shop_db"][2]["task"]["run_id"] == "r1"
    assert found["shop_db"][2]["ended"] == "2026-03-01T09:30:00.000000Z"


def test_of_many_backups_the_newest_of_each_source_are_told(airflow: AirflowRows, monkeypatch: Any) -> None:
    monkeypatch.setattr(recent_runs, "MOST", 2)
    known = dags(airflow)
    for number in range(4):
        ran(airflow, f"r{number}", "backup_shop_db", "success", hours=-1 - number)
    ran(airflow, "old", "backup_crm", "success", hours=-100)
    found = recent_backups(airflow.session, known, SOURCES, NOON)
    assert [each["task"]["run_id"] for each in found["shop_db"]] == ["r0", "r1"]
    assert [each["task"]["run_id"] for each in found["crm"]] == ["old"]


def test_blocks_of_other_runs_are_backups_too_and_joined_ones_are_none(store: ObjectStore) -> None:
    archive = Archive.open(store)
    add(archive, make_block(position="0/100"))
    add(archive, make_block(position="0/200").model_copy(update={"run": "run-2"}))
    add(archive, make_block(position="0/300").model_copy(update={"run": "compaction-1", "after": 2}))
    known = {"shop_db": [{"run": "run-1", "ended": "2026-03-01T11:00:00Z"}], "crm": []}
    found = with_blocks(known, archive.state)
    assert [each["run"] for each in found["shop_db"]] == ["run-2", "run-1"]
    assert found["shop_db"][0]["commit"] == 2
    assert found["crm"] == []
