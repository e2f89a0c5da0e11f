"""The example DAGs do in a running Airflow what they say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from demo.airflow import AirflowStandalone
from holdfast.archive import Archive
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.storage import ObjectStore, open_store
from locking import inspect
from tests.support.jobs.command import until
from tests.support.servers.postgres import create_database, drop_slots, passing_database

pytestmark = pytest.mark.service

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path for path in (ROOT / "docs" / "examples").glob("*.py") if not path.stem.startswith("locks"))

TOGETHER = ["back_up_after_load", "report_after_backup", "restore_weekly", "wait_for_backup"]
ALONE = ["lock_each_region", "lock_one_task", "lock_tasks", "maintain", "mark_before_migration", "require_verified"]


@dataclass(frozen=True)
class Stage:
    """An Airflow with the examples, the archive and the source that they name, and the empty database of the drill."""

    airflow: AirflowStandalone
    store: ObjectStore
    warehouse: Address
    drill: Address


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("examples")
    store = open_store(str(folder / "shop"))
    Archive.create(store, name="shop")
    with passing_database(postgres) as warehouse:
        with connect(warehouse) as session:
            session.execute("create table public.orders as select i as id from generate_series(1, 50) i")
        (folder / "archives.yaml").write_text(
            f"archives: {{shop: {{url: {store.url}, sources: {{warehouse: {{url: '{warehouse.url}'}}}}}}}}"
        )
        (folder / "dags").mkdir()
        for path in EXAMPLES:
            # The same, without the run that a schedule of the past begins with.
            (folder / "dags" / path.name).write_text(re.sub(r'schedule="[^"]+"', "schedule=None", path.read_text()))
        drill = create_database(postgres)
        airflow = AirflowStandalone(
            home=folder / "airflow",
            dags=folder / "dags",
            plugins=ROOT / "plugins",
            env={
                "HOLDFAST_ARCHIVES": str(folder / "archives.yaml"),
                "HOLDFAST_EXECUTOR": "inline",
                "PGPASSWORD": postgres.password,
                "AIRFLOW_CONN_DRILL_POSTGRES": json.dumps(_connection(drill)),
                "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            },
        )
        with airflow:
            for path in EXAMPLES:
                airflow.api.wait_for_dag(path.stem)
            yield Stage(airflow, store, warehouse, drill)
        drop_slots(warehouse)


def _connection(address: Address) -> dict[str, Any]:
    url = httpx.URL(address.url)
    host, port = url.params.get("host", url.host), int(url.params.get("port", url.port or 5432))
    return {
        "conn_type": "holdfast_postgres",
        "host": host,
        "port": port,
        "login": url.username,
        "password": address.password,
        "schema": address.database,
    }


def runs_of(airflow: AirflowStandalone, dag: str) -> list[str]:
    """Return the ids of a DAG's runs."""
    with httpx.Client(base_url=airflow.url, timeout=120, trust_env=False) as client:
        login = {"username": airflow.username, "password": airflow.password}
        token = client.post("/auth/token", json=login).json()["access_token"]
        told = client.get(f"/api/v2/dags/{dag}/dagRuns", headers={"Authorization": f"Bearer {token}"}).json()
    return [each["dag_run_id"] for each in told["dag_runs"]]


def succeeds(airflow: AirflowStandalone, dag: str, run: str | None = None) -> str:
    """Wait until a run has succeeded, or a new one; return its id."""
    run = run or airflow.api.trigger(dag)
    assert airflow.api.wait_for_run(dag, run, timeout=300, poll=1) == "success"
    return run


def succeeded(airflow: AirflowStandalone, dag: str, run: str) -> list[str]:
    """Return the tasks of a run that have succeeded."""
    return [each.task_id for each in airflow.api.tasks(dag, run) if each.state == "success"]


def test_a_load_is_backed_up_reported_on_and_restored(stage: Stage) -> None:
    airflow = stage.airflow
    succeeds(airflow, "back_up_after_load")
    assert len(Archive.open(stage.store).state.blocks) == 1
    (report,) = until(lambda: runs_of(airflow, "report_after_backup"), "the report after the backup", 300)
    succeeds(airflow, "report_after_backup", report)
    assert airflow.api.xcom("report_after_backup", report, "report").startswith("2")
    succeeds(airflow, "restore_weekly")
    with connect(stage.drill) as session:
        assert session.execute("select count(*) from public.orders").fetchone() == (50,)


def test_files_are_deleted_when_a_later_backup_has_what_they_held(stage: Stage) -> None:
    airflow = stage.airflow
    run = airflow.api.trigger("wait_for_backup")
    until(lambda: "load" in succeeded(airflow, "wait_for_backup", run), "the load", 300)
    with connect(stage.warehouse) as session:
        session.execute("insert into public.orders values (51)")
    succeeds(airflow, "back_up_after_load")
    succeeds(airflow, "wait_for_backup", run)


@pytest.mark.parametrize("dag", ALONE)
def test_each_does_its_one_thing(stage: Stage, dag: str) -> None:
    succeeds(stage.airflow, dag)
    assert [info for info in inspect(stage.store) if info.state == "held"] == []


def test_every_example_is_run() -> None:
    assert [path.stem for path in EXAMPLES] == sorted([*TOGETHER, *ALONE])
