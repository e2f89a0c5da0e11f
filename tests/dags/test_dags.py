"""The DAG files, read as Airflow reads them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from holdfast.archive.format.versions import FORMAT
from holdfast_airflow.assets import backups_of, record_of
from tests.support.airflow.alerts import FileNotifier

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

TWO = """
archives:
  shop:
    url: s3://backups/shop
    sources: {shop_db: {connection: shop_postgres, objectives: {rpo: 1h}}}
  big:
    url: s3://backups/big
    sources: {a: {connection: a}, b: {connection: b}}
    schedule:
      {full: "@weekly", changes: "*/15 * * * *", compaction: "@hourly", truncation: "@daily", vacuum: "@monthly",
      verification: "0 4 * * *", drill: "@weekly"}
    keep: {daily: 14}
    verification: {deep_within: 10d, budget: 100 GB}
    vacuum: {grace: 48h}
  kept:
    url: s3://backups/kept
  twice:
    replicas: {near: s3://a/twice, far: s3://b/twice}
    store: postgresql://holdfast@db/coordination
"""

MAINTENANCE = ("compaction", "truncation", "vacuum", "archive_verification")

Read = Callable[[str], DagBag]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Read dags/ with this archives.yaml in force, once for all tests: none of them changes what was read."""
    path = tmp_path_factory.mktemp("configuration") / "archives.yaml"

    @cache
    def read_with(text: str) -> DagBag:
        path.write_text(text)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOLDFAST_ARCHIVES", str(path))
            return DagBag(str(ROOT / "dags"))

    return read_with


def dag(bag: DagBag, dag_id: str) -> DAG:
    assert bag.import_errors == {}
    return bag.dags[dag_id]


def test_each_archive_has_its_dags(read: Read) -> None:
    bag = read(TWO)
    assert bag.import_errors == {}
    of_each = (*MAINTENANCE, "lock_reaper", "migration", "restore", "restore_drill")
    expected = [f"{kind}_{name}" for kind in of_each for name in ("big", "kept", "shop")]
    expected += [f"{kind}_twice" for kind in of_each if kind != "migration"]
    expected += ["holdfast_configuration", "objectives_shop"]
    of_replicas = [f"{kind}_twice" for kind in ("replica_sync", "replica_log_trimming", "lost_replica_recovery")]
    assert sorted(bag.dags) == sorted([*expected, *of_replicas, "backup_big", "backup_shop", "changes_big"])
    assert sorted(dag(bag, "replica_sync_twice").task_ids) == ["sync_far", "sync_near"]
    for kind, task in (("archive_verification", "verify"), ("lock_reaper", "reap"), ("restore_drill", "drill")):
        assert sorted(dag(bag, f"{kind}_twice").task_ids) == [f"{task}_far", f"{task}_near"]
    assert dag(bag, "backup_shop").task_ids == ["backup_shop_db"]
    assert sorted(dag(bag, "backup_big").task_ids) == ["backup_a", "backup_b", "choose_sources"]
    assert dag(bag, "restore_shop").task_ids == ["restore"]
    assert all(found.max_active_runs == 1 for found in bag.dags.values())


def test_dags_can_be_stored_by_airflow(read: Read) -> None:
    for found in read(TWO).dags.values():
        assert DagSerialization.to_dict(found)["dag"]["dag_id"] == found.dag_id


def test_airflow_shows_the_code_of_the_dag_file(read: Read) -> None:
    files = {Path(found.fileloc) for found in read(TWO).dags.values()}
    assert files == set((ROOT / "dags").glob("*.py")) - {ROOT / "dags" / "configuration_mistakes.py"}


def test_no_file_means_no_dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_ARCHIVES", raising=False)
    monkeypatch.chdir(tmp_path)
    bag = DagBag(str(ROOT / "dags"))
    assert (bag.import_errors, dict(bag.dags)) == ({}, {})


MISTAKES = {
    "an unknown key": ("{urll: x}", "line 3: archives.broken: unknown key 'urll'; did you mean 'url'?"),
    "a schedule": (
        "{url: x, schedule: {compaction: '61 * * * *'}}",
        "line 3: archives.broken.schedule.compaction: '61' is no minute: write *, 0 to 59, a range, a list or a step "
        "(it says '61 * * * *')",
    ),
    "a notifier": (
        "{url: x, alerts: [{notifier: nobody.has.This}]}",
        "line 3: archives.broken.alerts: there is no nobody.has.This here (ModuleNotFoundError: No module named "
        "'nobody'): install the provider that has it, or correct it",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_one_archive_is_one_import_error_and_leaves_the_others_their_dags(
    read: Read, mistake: str
) -> None:
    text, sentence = MISTAKES[mistake]
    bag = read(f"archives:\n  good: {{url: y, sources: {{db: {{connection: c}}}}}}\n  broken: {text}")
    ((file, said),) = bag.import_errors.items()
    assert file.endswith("configuration_mistakes.py")
    assert said.rstrip().endswith(sentence)
    assert {"backup_good", "restore_good", "lock_reaper_good", "holdfast_configuration"} <= set(bag.dags)
    assert not any(name.endswith("_broken") for name in bag.dags)


@pytest.mark.parametrize("text", ["archives: [", "archives: []", "archive: {}"])
def test_a_file_of_which_nothing_can_be_read_is_one_import_error(read: Read, text: str) -> None:
    bag = read(text)
    ((file, said),) = bag.import_errors.items()
    assert file.endswith("configuration_mistakes.py")
    assert "archives.yaml" in said
    assert list(bag.dags) == ["holdfast_configuration"]


def test_the_dag_of_the_configuration_fails_while_there_is_a_mistake(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task: Any = dag(read(TWO), "holdfast_configuration").get_task("check")
    check = task.python_callable
    path = tmp_path / "archives.yaml"
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(path))
    path.write_text("archives: {good: {url: y}}")
    check()
    path.write_text("archives: {good: {url: y}, one: {url: x, alerts: [{notifier: nobody.This}]}, two: {urll: x}}")
    with pytest.raises(AirflowFailException) as failed:
        check()
    first, second = str(failed.value).splitlines()
    assert "line 1: archives.two: unknown key 'urll'" in first
    assert "archives.one.alerts: there is no nobody.This here" in second
    path.unlink()
    with pytest.raises(AirflowFailException, match="there is no such file"):
        check()


def test_alerts_tell_of_mistakes_in_other_archives(read: Read) -> None:
    notifier = "{notifier: tests.support.airflow.alerts.FileNotifier, arguments: {path: told, text: x}}"
    bag = read(f"archives: {{good: {{url: y, alerts: [{notifier}]}}, bad: {{urll: x}}}}")
    told: Any = bag.dags["holdfast_configuration"].get_task("check").on_failure_callback
    assert [type(each) for each in told] == [FileNotifier]


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


def test_migration_is_by_hand_alone_and_to_the_newest_format_unless_told(read: Read) -> None:
    found = dag(read(TWO), "migration_big")
    assert found.schedule is None
    assert found.task_ids == ["migrate"]
    assert found.params["to"] == FORMAT


def test_drills_are_of_every_source_one_at_a_time(read: Read) -> None:
    bag = read(TWO)
    assert sorted(dag(bag, "restore_drill_big").task_ids) == ["drill_a", "drill_b"]
    assert dag(bag, "restore_drill_kept").task_ids == ["drill"]
    drills = dag(bag, "restore_drill_big")
    assert (str(drills.schedule), drills.catchup, drills.max_active_tasks) == ("@weekly", False, 1)
    # Each is a leaf, so that any that fails is a run that has failed.
    assert {task.task_id for task in drills.leaves} == set(drills.task_ids)
    assert drills.params.get_param("at").resolve() is None


def test_changes_have_a_dag_of_their_own_and_both_can_be_told_otherwise_by_hand(read: Read) -> None:
    bag = read(TWO)
    kinds = {name: dag(bag, name).params["kind"] for name in ("backup_shop", "backup_big", "changes_big")}
    assert kinds == {"backup_shop": "full", "backup_big": "full", "changes_big": "changes"}
    assert dag(bag, "changes_big").params.get_param("kind").resolve("full") == "full"
    with pytest.raises(ParamValidationError):
        dag(bag, "changes_big").params.get_param("kind").resolve("incremental")
    # They differ in nothing else: the lock of the source, which both take, keeps them apart.
    assert sorted(dag(bag, "changes_big").task_ids) == sorted(dag(bag, "backup_big").task_ids)


def test_reaper_comes_by_every_ten_minutes_and_never_catches_up(read: Read) -> None:
    reaper = dag(read(TWO), "lock_reaper_kept")
    assert reaper.task_ids == ["reap"]
    assert reaper.schedule == reaper.dagrun_timeout == timedelta(minutes=10)
    assert not reaper.catchup


def test_other_dags_can_be_scheduled_on_the_backups_of_an_archive(read: Read) -> None:
    bag = read(TWO)
    for name in ("backup_big", "changes_big"):
        outlets = {task.task_id: task.outlets for task in dag(bag, name).tasks}
        both = [backups_of("big"), record_of("big")]
        assert outlets == {"choose_sources": [], "backup_a": both, "backup_b": both}
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


def test_restore_has_no_target_until_somebody_names_one(read: Read) -> None:
    params = dag(read(TWO), "restore_shop").params
    with pytest.raises(ParamValidationError):
        params.get_param("target_connection").resolve()
    assert params.get_param("target_connection").resolve("shop_postgres") == "shop_postgres"


@pytest.mark.parametrize(
    "at",
    [
        *("latest", "commit:42", "lsn:0/1E67C48", "mark:before 4.2"),
        *("2026-11-21Z", "2026-11-21 17:05+0100", "2026-11-21T17:05:00.123456+00:00"),
    ],
)
def test_form_of_a_restore_takes_every_way_to_say_when(read: Read, at: str) -> None:
    assert dag(read(TWO), "restore_shop").params.get_param("at").resolve(at) == at


def test_form_of_a_restore_takes_tables_names_and_a_dry_run(read: Read) -> None:
    params = dag(read(TWO), "restore_shop").params
    assert (params["tables"], params["map"], params["dry_run"]) == ([], [], False)
    assert (params["roles"], params["tablespaces"]) == ("check", "drop")
    for name, value in (("tables", ["a.*", "b.c"]), ("tables", None), ("map", ["a=b"]), ("dry_run", True)):
        assert params.get_param(name).resolve(value) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("at", "yesterday"),
        ("at", "2026-11-21T17:05:00"),
        ("at", "commit:x"),
        ("at", "lsn:12"),
        ("at", "mark:"),
        ("at", ""),
        ("tables", "a.*"),
        ("tables", [""]),
        ("map", ["a"]),
        ("map", ["a=b=c"]),
        ("dry_run", "perhaps"),
        ("roles", "guess"),
        ("tablespaces", None),
        ("consistency", "perhaps"),
    ],
)
def test_form_of_a_restore_refuses_what_nobody_can_mean(read: Read, name: str, value: Any) -> None:
    with pytest.raises(ParamValidationError):
        dag(read(TWO), "restore_shop").params.get_param(name).resolve(value)


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [("all", ["backup_a", "backup_b"]), ("b", ["backup_b"])],
)
def test_form_chooses_among_the_sources(read: Read, wanted: str, chosen: list[str]) -> None:
    task: Any = dag(read(TWO), "backup_big").get_task("choose_sources")
    assert task.python_callable(["a", "b"], params={"source": wanted}) == chosen


@pytest.mark.slow
def test_reading_dag_files_imports_no_data_engine(tmp_path: Path) -> None:
    config = tmp_path / "archives.yaml"
    config.write_text(TWO)
    names = sorted(path.stem for path in (ROOT / "dags").glob("*.py"))
    code = (
        "import runpy, sys\n"
        f"for name in {names}: runpy.run_path(f'{ROOT}/dags/{{name}}.py')\n"
        "print(sorted({'pyarrow', 'boto3', 'pyspark', 'numpy', 'adbc_driver_manager', 'psycopg'} & set(sys.modules)))"
    )
    environment = {**os.environ, "HOLDFAST_ARCHIVES": str(config), "AIRFLOW_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_truncation_is_followed_by_a_vacuum_and_a_dry_run_is_one_of_both(read: Read) -> None:
    truncation = dag(read(TWO), "truncation_big")
    assert truncation.task_dict["truncate"].downstream_task_ids == {"vacuum"}
    assert truncation.params["dry_run"] is False
    plans: Any = [truncation.get_task(name) for name in ("truncate", "vacuum")]
    assert {task.only_plan._name for task in plans} == {"dry_run"}


def test_replicas_are_compacted_and_truncated_through_the_first_and_each_is_vacuumed(read: Read) -> None:
    bag = read(TWO)
    assert dag(bag, "compaction_twice").task_ids == ["compact"]
    vacuums = {"vacuum_near", "vacuum_far"}
    assert set(dag(bag, "vacuum_twice").task_ids) == vacuums
    truncation = dag(bag, "truncation_twice")
    assert truncation.task_dict["truncate"].downstream_task_ids == vacuums
    through: Any = {task.task_id: task for task in truncation.tasks}
    assert {name: task.replica for name, task in through.items()} == {
        "truncate": None,
        "vacuum_near": "near",
        "vacuum_far": "far",
    }


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


def test_objectives_are_judged_every_ten_minutes(read: Read) -> None:
    judge = dag(read(TWO), "objectives_shop")
    assert judge.task_ids == ["judge"]
    assert judge.schedule == judge.dagrun_timeout == timedelta(minutes=10)
