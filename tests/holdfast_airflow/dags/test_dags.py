"""The DAG files together, read as Airflow reads them: which DAGs there are, their schedules and forms."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from holdfast_airflow.archives import MANY_RUNS, KnownFields
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
    assert sorted(dag(bag, "replica_sync_twice").task_ids) == ["sync_far", "sync_near"]
    for kind, task in (("archive_verification", "verify"), ("lock_reaper", "reap"), ("restore_drill", "drill")):
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
    assert {type(task._pre_execute_hook) for task in tasks} == {KnownFields}


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
        ("truncation_big", "min_chains", [1, 5], [0, "many"]),
        ("vacuum_big", "grace", ["0h", "24h", "1.5 d"], ["", "soon", "-1h", None]),
        ("archive_verification_big", "within", ["30d"], ["", "1 year"]),
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
