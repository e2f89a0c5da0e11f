"""The list of archives, and one of them, by Airflow's database alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast.config.archives_model import ArchiveConfig
from holdfast_airflow.assets import record_of
from holdfast_airflow.page.overview import detail, entry_by, overview, shown_archives
from holdfast_airflow.page.page import PageConfiguration
from tests.support.airflow.database import NOON, AirflowRows


def configured(**archives: dict[str, Any]) -> PageConfiguration:
    return PageConfiguration({name: ArchiveConfig.model_validate(told) for name, told in archives.items()})


SHOP: dict[str, Any] = {
    "url": "/shop",
    "sources": {"shop_db": {"url": "postgresql://db/shop", "objectives": {"rpo": "1h"}}},
}


def record(source: str = "shop_db", **more: Any) -> dict[str, Any]:
    facts = {"restorable_to": NOON.isoformat(), "verified": NOON.isoformat()}
    told = {"source": source, "facts": facts, "objectives": {"rpo": "1h"}, "waiting": []}
    return {"archive": "id", "name": "shop", "url": "/shop", "sources": [told], "bytes": 5, "commits": 3, **more}


def kept(airflow: AirflowRows, name: str, told: dict[str, Any]) -> None:
    airflow.event(airflow.asset(record_of(name).uri), told)


def entry(
    airflow: AirflowRows, configuration: PageConfiguration, name: str = "shop", hours: float = 0
) -> dict[str, Any]:
    [found] = overview(airflow.session, configuration, [name], NOON + timedelta(hours=hours))
    return found


def test_archives_are_those_of_the_file_with_mistakes_and_those_that_were_recorded(airflow: AirflowRows) -> None:
    kept(airflow, "old", record())
    known = PageConfiguration(configured(shop=SHOP).archives, {"wrong": "no url"})
    assert shown_archives(airflow.session, known) == {"shop", "wrong", "old"}


def test_an_archive_is_ready_as_long_as_its_record_keeps_its_objectives(airflow: AirflowRows) -> None:
    kept(airflow, "shop", record())
    found = entry(airflow, configured(shop=SHOP))
    assert (found["state"], found["place"], found["bytes"], found["commits"]) == ("ready", "/shop", 5, 3)
    assert (found["configured"], found["record_age_s"], found["encrypted"]) == (True, 0.0, False)
    later = entry(airflow, configured(shop=SHOP), hours=2)
    assert (later["state"], later["record_age_s"]) == ("not ready", 7200.0)


def test_without_a_record_nothing_is_known(airflow: AirflowRows) -> None:
    found = entry(airflow, configured(shop=SHOP))
    assert (found["state"], found["recorded"], found["bytes"]) == ("unknown", None, None)
    assert [each["source"] for each in found["sources"]] == ["shop_db"]
    assert entry(airflow, configured(shop={"url": "/shop"}))["state"] == "unknown"


def test_one_that_the_file_has_no_longer_is_shown_by_its_record(airflow: AirflowRows) -> None:
    kept(airflow, "shop", record())
    found = entry(airflow, PageConfiguration())
    assert (found["configured"], found["place"], found["state"]) == (False, "/shop", "ready")


@pytest.mark.parametrize("pool", ["backups", "gone"])
def test_a_pool_that_is_not_there_is_a_mistake(airflow: AirflowRows, pool: str) -> None:
    airflow.pool("backups")
    kept(airflow, "shop", record())
    found = entry(airflow, configured(shop={**SHOP, "pool": pool}))
    assert (found["state"], bool(found["mistake"])) == (("ready", False) if pool == "backups" else ("not ready", True))
    if pool == "gone":
        assert found["mistake"].startswith("Airflow has no pool 'gone', so no task of this archive starts")


def test_paused_dags_and_mistakes_need_a_person(airflow: AirflowRows) -> None:
    kept(airflow, "shop", record())
    airflow.dag("backup_shop", "holdfast", "shop", paused=True)
    found = entry(airflow, configured(shop=SHOP))
    assert (found["state"], found["paused"]) == ("not ready", ["backup_shop"])
    wrong = PageConfiguration({}, {"books": "no url"})
    assert (entry(airflow, wrong, "books")["state"], entry(airflow, wrong, "books")["mistake"]) == (
        "not ready",
        "no url",
    )


def test_those_come_first_that_need_a_person(airflow: AirflowRows) -> None:
    for name in ("a_ready", "d_ready"):
        kept(airflow, name, record())
    configuration = PageConfiguration(
        configured(a_ready=SHOP, d_ready=SHOP, b_unknown=SHOP).archives, {"c_wrong": "no url"}
    )
    names = ["d_ready", "c_wrong", "b_unknown", "a_ready"]
    found = overview(airflow.session, configuration, names, NOON)
    assert [each["archive"] for each in found] == ["c_wrong", "b_unknown", "a_ready", "d_ready"]


def test_tasks_are_counted_for_their_own_archive(airflow: AirflowRows) -> None:
    for name in ("shop", "books"):
        airflow.dag(f"backup_{name}", "holdfast", name)
        airflow.run(f"backup_{name}", "r1", "running")
    airflow.task("backup_shop", "r1", "save", "running")
    for number in range(2):
        airflow.task("backup_shop", "r1", f"wait {number}", "queued")
    airflow.task("backup_books", "r1", "save", "running")
    found = {each["archive"]: each for each in overview(airflow.session, PageConfiguration(), ["shop", "books"], NOON)}
    assert (found["shop"]["running"], found["shop"]["waiting"]) == (1, 2)
    assert (found["books"]["running"], found["books"]["waiting"], found["books"]["failed"]) == (1, 0, 0)


def test_replicas_are_told_as_far_as_a_record_tells_them(airflow: AirflowRows) -> None:
    far = {
        "name": "far",
        "entries_behind": 2,
        "bytes_behind": 9,
        "seconds_behind": 60.0,
        "active": False,
        "lost": False,
    }
    kept(airflow, "shop", record(replication={"replicas": [{**far, "url": "/far", "epoch": 1}]}))
    config = configured(shop={"replicas": {"near": "/near", "far": "/far"}, "store": "sqlite:////a.db", "quorum": 2})
    found = entry(airflow, config)
    assert (found["place"], found["quorum"], found["replicas"]) == ("near, far", 2, [far])


def test_one_archive_is_told_with_all_that_is_known_of_it(airflow: AirflowRows) -> None:
    kept(airflow, "shop", record())
    airflow.dag("backup_shop", "holdfast", "shop")
    airflow.dag("restore_shop", "holdfast", "shop")
    airflow.run("backup_shop", "r1", "failed")
    airflow.task("backup_shop", "r1", "save", "failed")
    airflow.run("restore_shop", "r1", "running")
    airflow.task("restore_shop", "r1", "load", "running")
    found = detail(airflow.session, configured(shop=SHOP), "shop", NOON)
    assert found["record"] == record()
    assert [each["task_id"] for each in found["active"]] == ["load"]
    assert [each["task_id"] for each in found["failures"]] == ["save"]
    assert [each["dag_id"] for each in found["dags"]] == ["backup_shop", "restore_shop"]
    assert (found["failed"], found["state"], found["missing"]) == (1, "not ready", [])
    assert (list(found["days"]), list(found["backups"])) == (["shop_db"], ["shop_db"])
    assert found["no_failures"] == ""
    nothing = detail(airflow.session, configured(shop=SHOP), "books", NOON)
    assert (nothing["record"], nothing["dags"], nothing["state"]) == (None, [], "unknown")


def test_that_nothing_failed_is_said_only_where_something_runs(airflow: AirflowRows) -> None:
    airflow.dag("backup_shop", "holdfast", "shop")

    def said(configuration: PageConfiguration, name: str = "shop") -> str:
        return str(detail(airflow.session, configuration, name, NOON)["no_failures"])

    assert said(configured(shop=SHOP)) == "The newest run of no DAG has failed."
    assert said(configured(books=SHOP), "books") == "None: Airflow has no DAG of it."
    assert said(PageConfiguration({}, {"shop": "no url"})) == "None, but with the mistake above nothing of it runs."


def test_a_record_of_now_knows_a_drill_that_no_task_has_recorded(airflow: AirflowRows) -> None:
    kept(airflow, "shop", record(replication={"replicas": [], "missing": [7, 8]}))
    told = record()
    told["sources"][0]["facts"]["drill_failure"] = "public.orders is not equal"
    found = entry_by(airflow.session, configured(shop=SHOP), "shop", told, NOON)
    assert (found["state"], found["sources"][0]["reasons"], found["reasons"]) == (
        "not ready",
        ["the newest drill failed: public.orders is not equal"],
        ["no replica has the files of 2 entries of the update log"],
    )


def test_the_next_scheduled_backup_is_the_first_that_is_not_paused(airflow: AirflowRows) -> None:
    kept(airflow, "shop", record())
    airflow.dag("backup_shop", "holdfast", "shop", next_hours=5)
    airflow.dag("changes_shop", "holdfast", "shop", next_hours=1, paused=True)
    airflow.dag("vacuum_shop", "holdfast", "shop", next_hours=2)
    assert entry(airflow, configured(shop=SHOP))["next"] == (NOON + timedelta(hours=5)).isoformat()
    described = {each["operation"]: each for each in detail(airflow.session, PageConfiguration(), "shop", NOON)["dags"]}
    assert (described["changes"]["paused"], described["changes"]["next"]) == (True, None)


def test_an_archive_without_any_backup_says_what_is_missing(airflow: AirflowRows) -> None:
    two = {**SHOP, "sources": {"crm": SHOP["sources"]["shop_db"], "shop_db": SHOP["sources"]["shop_db"]}}
    found = entry(airflow, configured(shop=two))
    assert found["missing"] == [
        "No task has recorded anything of it: it may not have been created yet.",
        "crm has no backup yet.",
        "shop_db has no backup yet.",
    ]
    assert (found["reasons"], [each["reasons"] for each in found["sources"]]) == ([], [[], []])
    kept(airflow, "shop", record(sources=[{"source": "shop_db", "facts": {}, "waiting": []}]))
    assert entry(airflow, configured(shop=SHOP))["missing"] == ["shop_db has no backup yet."]
    assert entry(airflow, configured(idle={"url": "/idle"}), "idle")["missing"][1:] == [
        "archives.yaml names no source of it."
    ]
