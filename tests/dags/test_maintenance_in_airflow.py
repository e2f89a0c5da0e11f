"""The maintenance of an archive as Airflow runs it: its DAGs, one after the other, on an encrypted archive."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.airflow import AirflowStandalone
from holdfast.archive import Archive
from holdfast.archive.points import intervals
from holdfast.archive.verify import verify
from holdfast.replication.membership import found
from holdfast.replication.replicas import mark_lost, replica
from holdfast.replication.store import CoordinationStore
from holdfast.sources.postgresql.server import PostgresServer
from holdfast.sources.postgresql.session import connect
from holdfast.storage import ObjectStore, open_store
from holdfast.storage.key_source import ENVIRONMENT, new_key
from locking import inspect
from tests.support.followed import open_followed
from tests.support.replicated import Replicas
from tests.support.servers import create_database, passing_database

pytestmark = pytest.mark.service

ROOT = Path(__file__).parents[2]

CONFIGURATION = """
archives:
  shop:
    url: archive
    encryption: {{key: "file:{key}"}}
    compaction: {{min_blocks: 2, min_age: 0s}}
    vacuum: {{grace: 0s}}
    drill: {{assertions: ["select count(*) = 100 from orders"]}}
    alerts:
      - notifier: tests.support.alerts.FileNotifier
        arguments: {{path: {folder}/alerts, text: "{{{{ dag.dag_id }}}}: {{{{ exception }}}}"}}
    sources:
      shop: {{url: "{url}"}}
  pair:
    replicas: {{near: {folder}/near, far: {folder}/far}}
    store: sqlite:///{folder}/coordination.db
    quorum: 2
    sources:
      crm: {{url: "{crm}"}}
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> ObjectStore:
    """An encrypted archive with a full backup and four of changes, and archives.yaml beside it."""
    folder = tmp_path_factory.mktemp("maintenance")
    (folder / "key").write_text(new_key())
    with pytest.MonkeyPatch.context() as patch, passing_database(postgres) as source:
        patch.setenv(ENVIRONMENT, f"file:{folder / 'key'}")
        crm = create_database(postgres)
        words = {"key": folder / "key", "url": source.url, "crm": crm.url, "folder": folder}
        (folder / "archives.yaml").write_text(CONFIGURATION.format(**words))
        with open_followed(source, folder / "archive") as followed:
            followed.run("create table orders (id int primary key, word text)")
            followed.run("insert into orders select i, 'new' from generate_series(1, 100) i")
            for number in range(5):
                followed.run(f"update orders set word = 'after {number}'")
                followed.back_up("changes")
    with connect(crm) as session:
        session.execute("create table public.customers as select i as id from generate_series(1, 50) i")
    return open_store(str(folder / "archive"), f"file:{folder / 'key'}")


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory, archive: ObjectStore, postgres: PostgresServer
) -> Iterator[AirflowStandalone]:
    with AirflowStandalone(
        home=tmp_path_factory.mktemp("airflow"),
        dags=ROOT / "dags",
        plugins=ROOT / "plugins",
        env={
            "HOLDFAST_ARCHIVES": str(Path(archive.url).with_name("archives.yaml")),
            "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
            "PGPASSWORD": postgres.password,
            "PYTHONPATH": str(ROOT),  # where the notifier is
        },
    ) as running:
        yield running


def run(airflow: AirflowStandalone, operation: str, task: str, archive: str = "shop", **form: Any) -> dict[str, Any]:
    """Run a DAG with what its form says; return what a task passed on."""
    name = f"{operation}_{archive}"
    airflow.api.wait_for_dag(name)
    run_id = airflow.api.trigger(name, form)
    state = airflow.api.wait_for_run(name, run_id, timeout=240)
    assert state == "success", airflow.api.task_log(name, run_id, task)[-3000:]
    passed_on = airflow.api.xcom(name, run_id, task)
    assert isinstance(passed_on, dict)
    return passed_on


def test_an_archive_is_looked_after_by_its_dags(airflow: AirflowStandalone, archive: ObjectStore) -> None:
    begin = intervals(Archive.open(archive).state, "shop")
    assert run(airflow, "migration", "migrate")["format"] == 2
    assert run(airflow, "truncation", "truncate", keep=["last=1"], dry_run=True)["dry_run"]
    assert intervals(Archive.open(archive).state, "shop") == begin

    compacted = run(airflow, "compaction", "compact", consolidate=True)
    assert compacted["blocks_removed"] >= 4
    assert (compacted["blocks_added"], compacted["consolidated"]) == (2, ["shop"])

    run(airflow, "truncation", "truncate", keep=["last=1"])  # and the vacuum behind it
    assert run(airflow, "vacuum", "vacuum", dry_run=True)["files"] == 0

    verified = run(airflow, "archive_verification", "verify", deep=True)
    assert verified["files"] > 0
    drilled = run(airflow, "restore_drill", "drill_shop", at="latest")
    assert drilled["equal"]
    assert [each["holds"] for each in drilled["assertions"]] == [True]

    assert verify(Archive.open(archive), deep=True).damage == ()
    assert len(intervals(Archive.open(archive).state, "shop")) == 1
    assert [info for info in inspect(archive) if info.state not in ("dead", "expired")] == []
    assert airflow.api.import_errors() == {}


def test_who_is_named_in_the_configuration_is_told_of_a_failure(
    airflow: AirflowStandalone, archive: ObjectStore
) -> None:
    name = "restore_drill_shop"
    airflow.api.wait_for_dag(name)
    run_id = airflow.api.trigger(name, {"at": "1999-01-01T00:00:00Z"})
    assert airflow.api.wait_for_run(name, run_id, timeout=120) == "failed"
    told = Path(archive.url).with_name("alerts").read_text()
    assert told.startswith(f"{name}: ")
    assert "1999" in told


def waits_without_a_worker(airflow: AirflowStandalone, place: Path) -> dict[str, Any]:
    """Make a backup while a replica that it needs is away, which comes back then; return what its task passed on."""
    away = place.rename(place.with_name("away"))
    name = "backup_pair"
    run_id = airflow.api.trigger(name, {})
    deadline = time.monotonic() + 240
    while (states := {task.state for task in airflow.api.tasks(name, run_id)}) != {"deferred"}:
        assert time.monotonic() < deadline, states
        assert not states & {"failed", "up_for_retry"}, airflow.api.task_log(name, run_id, "backup_crm")[-3000:]
        time.sleep(0.5)
    away.rename(place)
    run(airflow, "replica_sync", "sync_far", "pair")
    assert airflow.api.wait_for_run(name, run_id, timeout=120) == "success"
    passed_on = airflow.api.xcom(name, run_id, "backup_crm")
    assert isinstance(passed_on, dict)
    return passed_on


def test_replicas_are_kept_equal_by_their_dags(airflow: AirflowStandalone, archive: ObjectStore) -> None:
    folder = Path(archive.url).parent
    with CoordinationStore.open(f"sqlite:///{folder}/coordination.db") as coordination:
        pair = Replicas(folder, coordination)
        pair.archive = Archive.create(pair.place("near"), name="pair").identity.id
        found(coordination, pair.place("near"), "near")
        pair.add("far")

        done = run(airflow, "backup", "backup_crm", "pair")
        assert (done["rows"], done["quorum"]["replicas"]) == (50, ["far", "near"])
        assert waits_without_a_worker(airflow, folder / "far")["quorum"]["entry"] == 2
        assert run(airflow, "replica_sync", "sync_far", "pair")["index"] == 2
        assert pair.state("far").blocks.keys() == pair.state("near").blocks.keys()
        assert pair.is_whole("far")

        for path in (folder / "far" / "data").rglob("*.parquet"):
            path.unlink()
        coordination.run(lambda c: mark_lost(c, pair.archive, "far", "its disk was changed"))
        # A run that the schedule has begun in the same moment may have done it: then there is nothing left.
        made = run(airflow, "lost_replica_recovery", "recover", "pair")["recovered"]
        assert [(each["replica"], each["from"], each["index"]) for each in made] in ([("far", "near", 2)], [])
        assert pair.is_whole("far")
        assert not coordination.run(lambda c: replica(c, pair.archive, "far")).is_lost

        trimmed = run(airflow, "replica_log_trimming", "trim", "pair", min_keep=0, max_keep=10)
        assert (trimmed["log_start"], trimmed["lost"]) == (3, [])
    assert airflow.api.import_errors() == {}
