"""The DAG files together, read as Airflow reads them: which DAGs there are, their schedules and forms."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from holdfast.archive.format.versions import FORMAT
from holdfast.replication.log.settings import MAX_KEEP, MIN_KEEP
from holdfast_airflow.archives import MANY_RUNS, ONE_SOURCE, ConfCheck
from holdfast_airflow.assets import backups_of, record_of, verifications_of
from tests.support.airflow.dag_files import DAGS, MAINTENANCE, ROOT, TWO, Read, dag

pytestmark = pytest.mark.slow

ARCHIVES = ("big", "kept", "shop", "twice")


def test_each_archive_has_its_dags(read: Read) -> None:
    bag = read(TWO)
    assert bag.import_errors == {}
    of_each = (*MAINTENANCE, "lock_reaper", "migration", "restore", "restore_drill")
    expected = [f"{kind}_{name}" for kind in of_each for name in ("big", "kept", "shop")]
    expected += [f"{kind}_twice" for kind in of_each if kind != "migration"]
    expected += ["holdfast_configuration", "objectives_shop", "setup_big", "setup_shop"]
    of_replicas = [f"{kind}_twice" for kind in ("replica_sync", "replica_log_trimming", "lost_replica_recovery")]
    assert sorted(bag.dags) == sorted([*expected, *of_replicas, "backup_big", "backup_shop", "changes_big"])
    for kind, task in (("archive_verification", "verify"), ("restore_drill", "drill")):
        assert sorted(dag(bag, f"{kind}_twice").task_ids) == [f"{task}_far", f"{task}_near"]
    assert dag(bag, "backup_shop").task_ids == ["backup_shop_db"]
    assert sorted(dag(bag, "backup_big").task_ids) == ["backup_a", "backup_b", "choose_sources"]
    assert dag(bag, "restore_shop").task_ids == ["restore"]


def test_only_what_changes_an_archive_has_one_run_at_a_time(read: Read) -> None:
    limits = {found.dag_id: found.max_active_runs for found in read(TWO).dags.values()}
    unlimited = {dag_id for dag_id, limit in limits.items() if limit == MANY_RUNS}
    assert unlimited == {f"{kind}_{name}" for kind in ("restore", "restore_drill") for name in ARCHIVES}
    assert {limit for dag_id, limit in limits.items() if dag_id not in unlimited} == {1}


def test_each_task_of_an_archive_begins_with_a_check_of_the_words_its_run_was_given(read: Read) -> None:
    dags = [found for found in read(TWO).dags.values() if found.dag_id != "holdfast_configuration"]
    tasks: list[Any] = [task for found in dags for task in found.tasks]
    assert {type(task._pre_execute_hook) for task in tasks} == {ConfCheck}


def test_dags_can_be_stored_by_airflow(read: Read) -> None:
    for found in read(TWO).dags.values():
        assert DagSerialization.to_dict(found)["dag"]["dag_id"] == found.dag_id


def test_airflow_shows_the_code_of_the_dag_file(read: Read) -> None:
    files = {Path(found.fileloc) for found in read(TWO).dags.values()}
    assert files == set(DAGS.glob("*.py")) - {DAGS / "__init__.py", DAGS / "configuration_mistakes.py"}


def test_no_file_means_no_dags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_ARCHIVES", raising=False)
    monkeypatch.chdir(DAGS)
    bag = DagBag(str(DAGS))
    assert (bag.import_errors, dict(bag.dags)) == ({}, {})


def test_schedule_comes_from_the_configuration(read: Read) -> None:
    bag = read(TWO)
    assert dag(bag, "backup_shop").schedule is None
    assert str(dag(bag, "backup_big").schedule) == "@weekly"
    assert str(dag(bag, "changes_big").schedule) == "*/15 * * * *"
    assert not dag(bag, "changes_big").catchup
    assert not dag(bag, "backup_big").catchup
    assert dag(bag, "restore_big").schedule is None
    scheduled = {name: str(dag(bag, f"{name}_big").schedule) for name in MAINTENANCE}
    assert scheduled == {
        "compaction": "@hourly",
        "truncation": "@daily",
        "vacuum": "@monthly",
        "archive_verification": "0 4 * * *",
    }
    assert [dag(bag, f"{name}_shop").schedule for name in MAINTENANCE] == [None] * 4
    assert not any(dag(bag, f"{name}_big").catchup for name in MAINTENANCE)


def test_what_runs_by_itself_is_tried_again_before_its_run_ends(read: Read) -> None:
    scheduled = [found for found in read(TWO).dags.values() if found.schedule is not None]
    assert {"lock_reaper_big", "objectives_shop", "replica_log_trimming_twice"} <= {found.dag_id for found in scheduled}
    for found in scheduled:
        assert {task.retries for task in found.tasks} == {2}, found.dag_id
        waits = [2 * task.retry_delay for task in found.tasks]
        assert found.dagrun_timeout is None or max(waits) < found.dagrun_timeout / 2, found.dag_id


@pytest.mark.slow
def test_reading_dag_files_imports_no_data_engine(tmp_path: Path) -> None:
    config = tmp_path / "archives.yaml"
    config.write_text(TWO)
    names = sorted(path.stem for path in DAGS.glob("*.py"))
    code = (
        "import runpy, sys\n"
        f"for name in {names}: runpy.run_path(f'{DAGS}/{{name}}.py')\n"
        "print(sorted({'pyarrow', 'boto3', 'pyspark', 'numpy', 'adbc_driver_manager', 'psycopg'} & set(sys.modules)))"
    )
    environment = {**os.environ, "HOLDFAST_ARCHIVES": str(config), "AIRFLOW_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_forms_of_maintenance_begin_with_what_archives_yaml_says(read: Read) -> None:
    bag = read(TWO)
    assert dag(bag, "vacuum_big").params["grace"] == "48h"
    verification = dag(bag, "archive_verification_big").params
    assert (verification["within"], verification["budget"], verification["deep"]) == ("10d", "100 GB", True)
    assert dag(bag, "archive_verification_shop").params["budget"] is None
    assert dag(bag, "replica_sync_twice").params["spark"] is False
    assert "daily=14" in str(dag(bag, "truncation_big").doc_md)
    assert "a run needs its own" in str(dag(bag, "truncation_shop").doc_md)


@pytest.mark.parametrize("name", ["compaction", "truncation"])
def test_forms_of_maintenance_offer_one_source_or_all(read: Read, name: str) -> None:
    bag = read(TWO)
    found = dag(bag, f"{name}_big").params.get_param("source")
    assert (found.value, found.schema["enum"]) == ("all", ["all", "a", "b"])
    # Of an archive that archives.yaml names no sources of, any may be written.
    assert dag(bag, f"{name}_kept").params.get_param("source").resolve("old") == "old"


@pytest.mark.parametrize(
    ("dag_id", "name", "good", "bad"),
    [
        ("truncation_big", "keep", [None, [], ["last=2", "within=7d"]], ["last=2", ["often=2"], ["last"]]),
        ("vacuum_big", "grace", ["0h", "1.5 d"], ["soon", None]),
        ("archive_verification_big", "budget", [None, "2h", "100 GB"], [3]),
        ("compaction_big", "source", ["all", "a"], ["c"]),
    ],
)
def test_forms_of_maintenance_refuse_what_nobody_can_mean(
    read: Read, dag_id: str, name: str, good: list[Any], bad: list[Any]
) -> None:
    param = dag(read(TWO), dag_id).params.get_param(name)
    assert [param.resolve(value) for value in good] == good
    for value in bad:
        with pytest.raises(ParamValidationError):
            param.resolve(value)


def test_each_verification_updates_its_assets_and_says_how_deep_it_is(read: Read) -> None:
    bag = read(TWO)
    for name in ("big", "twice"):
        outlets = [verifications_of(name), record_of(name)]
        assert all(task.outlets == outlets for task in dag(bag, f"archive_verification_{name}").tasks)
    assert "all within 10d" in str(dag(bag, "archive_verification_big").doc_md)


def test_truncation_is_followed_by_a_vacuum_and_a_dry_run_is_one_of_both(read: Read) -> None:
    truncation = dag(read(TWO), "truncation_big")
    assert truncation.task_dict["truncate"].downstream_task_ids == {"vacuum"}
    assert truncation.params["dry_run"] is False
    plans: Any = [truncation.get_task(name) for name in ("truncate", "vacuum")]
    assert {task.only_plan._name for task in plans} == {"dry_run"}


def test_replicas_are_compacted_and_truncated_through_the_first_and_each_has_its_other_tasks(read: Read) -> None:
    def replicas(operation: str) -> dict[str, str | None]:
        tasks: Any = dag(read(TWO), f"{operation}_twice").tasks
        return {task.task_id: task.replica for task in tasks}

    assert replicas("compaction") == {"compact": None}
    assert replicas("truncation") == {"truncate": None, "vacuum_near": "near", "vacuum_far": "far"}
    for operation, task in (("vacuum", "vacuum"), ("lock_reaper", "reap"), ("replica_sync", "sync")):
        assert replicas(operation) == {f"{task}_near": "near", f"{task}_far": "far"}


def test_drills_are_of_every_source_one_at_a_time_unless_the_form_names_one(read: Read) -> None:
    drills: Any = dag(read(TWO), "restore_drill_big")
    assert (str(drills.schedule), drills.catchup, drills.max_active_tasks) == ("@weekly", False, 1)
    # Each is a leaf, so that any that fails is a run that has failed.
    assert {task.task_id for task in drills.leaves} == {"drill_a", "drill_b"}
    assert drills.params.get_param("at").resolve() is None
    choose = drills.get_task("choose_sources")
    for chosen, names in (("all", ["drill_a", "drill_b"]), ("b", ["drill_b"])):
        assert choose.python_callable(*choose.op_args, params={"source": chosen}) == names
    alone: Any = dag(read(TWO), "restore_drill_kept")  # archives.yaml names no source: the form may
    assert (alone.task_ids, alone.get_task("drill").source) == (["drill"], ONE_SOURCE)


def test_migration_is_by_hand_alone_and_to_the_newest_format_unless_told(read: Read) -> None:
    found: Any = dag(read(TWO), "migration_big")
    assert (found.schedule, found.task_ids, found.params["to"]) == (None, ["migrate"], FORMAT)


def test_objectives_are_judged_as_often_as_they_need(read: Read) -> None:
    judge: Any = dag(read(TWO), "objectives_shop")
    assert (judge.task_ids, judge.schedule, judge.dagrun_timeout) == (["judge"], *[timedelta(minutes=10)] * 2)
    daily: Any = dag(read(TWO.replace("rpo: 1h", "rpo: 30h")), "objectives_shop")
    assert (daily.schedule, daily.dagrun_timeout) == (timedelta(hours=3), timedelta(minutes=10))


@pytest.mark.parametrize(("archives", "interval"), [(1, timedelta(minutes=10)), (30, timedelta(hours=1))])
def test_reapers_of_many_archives_come_by_less_often(read: Read, archives: int, interval: timedelta) -> None:
    many = "archives: {" + ", ".join(f"a{number}: {{url: /srv/a{number}}}" for number in range(archives)) + "}"
    reaper: Any = dag(read(many), "lock_reaper_a0")
    assert (reaper.schedule, reaper.dagrun_timeout, reaper.catchup) == (interval, timedelta(minutes=10), False)


def test_each_replica_follows_each_backup_and_is_recovered_every_quarter_of_an_hour(read: Read) -> None:
    sync: Any = dag(read(TWO), "replica_sync_twice")
    # None waits for another: one that fails keeps no other from following.
    assert all(not task.upstream_task_ids for task in sync.tasks)
    assert [asset.uri for asset in sync.timetable.asset_condition.objects] == [backups_of("twice").uri]
    recovery: Any = dag(read(TWO), "lost_replica_recovery_twice")
    assert (recovery.schedule, recovery.params["deep"]) == (timedelta(minutes=15), True)


def test_a_log_is_trimmed_hourly_by_numbers_that_make_sense(read: Read) -> None:
    found: Any = dag(read(TWO), "replica_log_trimming_twice")
    assert (found.task_ids, found.schedule) == (["trim"], "@hourly")
    assert (found.params["min_keep"], found.params["max_keep"]) == (MIN_KEEP, MAX_KEEP)
    for wrong in (-1, "many", 1.5):
        with pytest.raises(ParamValidationError):
            found.params.get_param("min_keep").resolve(wrong)
