"""What the DAG files build their DAGs from."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import Param
from airflow.sdk.definitions.deadline import DeadlineReference
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import AirflowSkipException
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import TimeRestriction

from holdfast.archive import Archive
from holdfast.archive.format.last_seen import VARIABLE
from holdfast.config.archives_model import ArchiveConfig
from holdfast.storage import ObjectStore, open_store
from holdfast_airflow.archives import archive_dag, archives_at_one_place, configured_archives
from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.operators import DrillOperator
from tests.support.archives.blocks_without_rows import fill

DAILY = ArchiveConfig.model_validate({"url": "s3://backups/shop", "schedule": {"vacuum": "@daily"}})
BY_HAND = ArchiveConfig.model_validate({"url": "s3://backups/shop"})


def test_maintenance_leaves_out_archives_that_are_replicas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "archives.yaml"
    path.write_text("archives: {shop: {url: s3://a/shop}, twice: {replicas: {x: s3://a/t, y: s3://b/t}}}")
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(path))
    assert list(configured_archives()) == ["shop", "twice"]
    assert list(archives_at_one_place()) == ["shop"]


def test_dag_of_an_archive_runs_once_at_a_time_and_never_catches_up() -> None:
    dag = archive_dag("vacuum", "shop", DAILY, doc="", schedule_key="vacuum")
    assert (dag.dag_id, str(dag.schedule), dag.catchup, dag.max_active_runs) == ("vacuum_shop", "@daily", False, 1)
    assert dag.tags == {"holdfast", "maintenance", "shop"}
    assert archive_dag("reap", "shop", DAILY, doc="", tag="locks").tags == {"holdfast", "locks", "shop"}


def test_a_run_with_a_word_that_no_form_has_is_refused_before_its_task_begins() -> None:
    calls: list[str] = []
    form = {"dry_run": Param(True), "at": Param("latest")}
    with archive_dag("restore", "shop", BY_HAND, doc="", params=form) as dag:
        EmptyOperator(task_id="restore", pre_execute=lambda context: calls.append("its own"))
    task: Any = dag.get_task("restore")
    begin = task._pre_execute_hook
    assert begin is not None
    for conf in (None, {}, {"dry_run": False, "at": "commit:3"}):
        begin({"dag_run": SimpleNamespace(conf=conf)})
    assert calls == ["its own"] * 3
    with pytest.raises(JobRefused) as caught:
        begin({"dag_run": SimpleNamespace(conf={"dryrun": True})})
    assert str(caught.value) == (
        "nothing was done: conf has 'dryrun', which is no field of restore_shop (it has: at, dry_run); "
        "did you mean 'dry_run'?"
    )
    assert caught.value.exit_code == 2
    assert len(calls) == 3


def test_only_scheduled_tasks_are_tried_again() -> None:
    scheduled = archive_dag("vacuum", "shop", DAILY, doc="", schedule_key="vacuum", retry_delay=timedelta(minutes=2))
    assert scheduled.default_args == {"retries": 2, "retry_delay": timedelta(minutes=2)}
    by_hand = archive_dag("vacuum", "shop", BY_HAND, doc="", schedule_key="vacuum")
    assert by_hand.schedule is None
    assert by_hand.default_args["retries"] == 0


def test_dag_without_a_key_is_by_hand_and_leaves_tries_to_airflow() -> None:
    dag = archive_dag("migration", "shop", DAILY, doc="")
    assert dag.schedule is None
    assert dag.default_args == {}


def test_doc_says_where_the_archive_is_when_it_runs_and_what_the_file_adds() -> None:
    doc = "{name} ({place}), {schedule}, {grace}"
    dag = archive_dag("vacuum", "shop", DAILY, doc=doc, terms={"grace": "24h"}, schedule_key="vacuum")
    assert dag.doc_md == "shop (s3://backups/shop), @daily, 24h"
    replicas = ArchiveConfig.model_validate({"replicas": {"x": "s3://a/t", "y": "s3://b/t"}})
    assert archive_dag("restore", "t", replicas, doc="{place}, {schedule}").doc_md == "x, y, none is set"


def test_what_a_file_sets_wins() -> None:
    every = timedelta(minutes=10)
    dag = archive_dag("reap", "shop", DAILY, doc="", schedule=every, dagrun_timeout=every, start_date=None)
    assert dag.schedule == dag.dagrun_timeout == every
    assert dag.start_date is None


def test_a_task_reads_its_own_archive_alone(configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration.write_text("archives: {shop: {url: a}, pet_shop: {url: b}, other: {url: c}}")
    assert set(configured_archives()) == {"shop", "pet_shop", "other"}
    monkeypatch.setattr("holdfast_airflow.archives.get_parsing_context", lambda: SimpleNamespace(dag_id="vacuum_shop"))
    assert set(configured_archives()) == {"shop"}
    monkeypatch.setattr(
        "holdfast_airflow.archives.get_parsing_context", lambda: SimpleNamespace(dag_id="vacuum_pet_shop")
    )
    assert set(configured_archives()) == {"shop", "pet_shop"}


SETTINGS = {
    "url": "s3://backups/shop",
    "owner": "data platform",
    "pool": "backups",
    "queue": "spark",
    "timezone": "Europe/Berlin",
    "schedule": {"vacuum": "30 2 * * *"},
    "deadline": {"vacuum": "2h"},
}


def test_every_task_of_an_archive_has_its_owner_pool_and_queue() -> None:
    with archive_dag("vacuum", "shop", ArchiveConfig.model_validate(SETTINGS), doc="") as dag:
        task = EmptyOperator(task_id="vacuum")
    assert (task.owner, task.pool, task.queue, dag.owner) == ("data platform", "backups", "spark", "data platform")
    with archive_dag("vacuum", "shop", DAILY, doc=""):
        plain = EmptyOperator(task_id="vacuum")
    assert (plain.owner, plain.pool, plain.queue) == ("airflow", "default_pool", "default")


def test_schedules_are_meant_in_the_time_zone_of_the_archive() -> None:
    dag = archive_dag("vacuum", "shop", ArchiveConfig.model_validate(SETTINGS), doc="", schedule_key="vacuum")
    assert dag.timezone.name == "Europe/Berlin"
    assert archive_dag("vacuum", "shop", DAILY, doc="", schedule_key="vacuum").timezone.name == "UTC"
    stored = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    for month, hour in ((1, 1), (7, 0)):  # half past two there, in winter and in summer
        day = pendulum.datetime(2027, month, 9)
        after = stored.timetable.next_dagrun_info_v2(
            last_dagrun_info=None, restriction=TimeRestriction(day, None, catchup=True)
        )
        assert after is not None
        assert (after.run_after.hour, after.run_after.minute) == (hour, 30)


def test_runs_of_a_schedule_have_its_deadline_and_others_none() -> None:
    archive = ArchiveConfig.model_validate(SETTINGS)
    found: Any = archive_dag("vacuum", "shop", archive, doc="", schedule_key="vacuum").deadline
    (deadline,) = found
    assert (deadline.interval, deadline.reference) == (timedelta(hours=2), DeadlineReference.DAGRUN_QUEUED_AT)
    assert archive_dag("compaction", "shop", archive, doc="", schedule_key="compaction").deadline is None
    assert archive_dag("restore", "shop", archive, doc="").deadline is None


def test_tasks_carry_no_copies_of_the_form_and_get_its_values_all_the_same() -> None:
    form = {"kind": Param("full", enum=["full", "changes"]), "moved": Param(False, type="boolean")}
    with archive_dag("backup", "shop", DAILY, doc="", params=form) as dag:
        first, second = EmptyOperator(task_id="first"), EmptyOperator(task_id="second", params={"kind": "changes"})
    assert process_params(dag, second, None, suppress_exception=False) == {"kind": "changes", "moved": False}
    assert process_params(dag, first, {"moved": True}, suppress_exception=False) == {"kind": "full", "moved": True}
    stored = DagSerialization.to_dict(dag)["dag"]
    assert [name for name, _ in stored["params"]] == ["kind", "moved"]
    assert [[name for name, _ in task["__var"].get("params", [])] for task in stored["tasks"]] == [[], ["kind"]]


def test_a_form_that_lacks_a_default_is_refused_where_there_is_a_schedule() -> None:
    every = timedelta(hours=1)
    with pytest.raises(ValueError, match="not allowed to define a Schedule"):
        archive_dag("backup", "shop", DAILY, doc="", params={"to": Param(type="string")}, schedule=every)


def in_run(task: Any) -> Any:
    """Return what Airflow gives a task of a run without words of its own."""
    return {"task": task, "dag_run": SimpleNamespace(conf={})}


@pytest.fixture
def compaction(tmp_path: Path) -> Any:
    with archive_dag("compaction", "shop", ArchiveConfig(url=str(tmp_path / "archive")), doc="", after_backup=True):
        return EmptyOperator(task_id="compact")


def test_a_task_with_nothing_to_do_yet_is_skipped_with_a_sentence(tmp_path: Path, compaction: Any) -> None:
    with pytest.raises(AirflowSkipException, match="has no backup yet"):
        compaction._pre_execute_hook(in_run(compaction))
    store = open_store(str(tmp_path / "archive"))
    Archive.create(store, name="shop")
    with pytest.raises(AirflowSkipException):
        compaction._pre_execute_hook(in_run(compaction))


def test_a_drill_of_a_new_source_waits_for_its_first_backup(store: ObjectStore, configuration: Path) -> None:
    configuration.write_text(
        "archives: {shop: {url: archive, sources: {shop_db: {connection: c}, new: {connection: c}}}}"
    )
    fill(store, 1)
    with archive_dag("restore_drill", "shop", configured_archives()["shop"], doc="", after_backup=True):
        known, new = (
            DrillOperator(task_id=f"drill_{name}", archive="shop", source=name) for name in ("shop_db", "new")
        )
    tasks: list[Any] = [known, new]
    tasks[0]._pre_execute_hook(in_run(known))
    with pytest.raises(AirflowSkipException, match="has no backup of new yet"):
        tasks[1]._pre_execute_hook(in_run(new))


def test_an_archive_that_is_gone_is_nothing_to_be_silent_about(
    tmp_path: Path, compaction: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    store = open_store(str(tmp_path / "archive"))
    Archive.create(store, name="shop")
    fill(store, 1)
    Archive.open(store)  # this machine has seen it
    compaction._pre_execute_hook(in_run(compaction))  # it has a commit
    shutil.rmtree(tmp_path / "archive")
    compaction._pre_execute_hook(in_run(compaction))  # the task itself fails then


def test_a_mistyped_word_of_a_run_is_said_before_there_is_a_backup(compaction: Any) -> None:
    with pytest.raises(JobRefused, match="no field of compaction_shop"):
        compaction._pre_execute_hook({"task": compaction, "dag_run": SimpleNamespace(conf={"sourc": "x"})})
