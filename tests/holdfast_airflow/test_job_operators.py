"""Backup and restore operators: locks, then Spark, then the look into the archive, then release."""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import psutil
import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowTaskTimeout, TaskDeferred

import locking
from holdfast.archive import Archive
from holdfast.archive.runs import read_last
from holdfast.config import find_archive
from holdfast.errors import RefusedError
from holdfast.following import Decision
from holdfast.storage import ObjectStore
from holdfast_airflow.assets import backups_of
from holdfast_airflow.exceptions import JobFailed, JobRefused, LockWaitExpired
from holdfast_airflow.operators import BackupOperator, RestoreOperator
from holdfast_airflow.operators.job import ArchiveJobOperator
from holdfast_airflow.triggers.lock import PlanFreeTrigger
from locking import RWLock

PASSWORD = "hunter2/%&"

RETAINED = ["--max-retained", str(10 << 30)]
"""How much log a slot may keep where archives.yaml does not say."""


class Spark(Protocol):
    """The fixture `spark`."""

    note: Path
    play: Callable[[str], None]
    gone: list[str]

    def seen(self) -> dict[str, Any]: ...
    def starts(self) -> list[str]: ...


def backup(**more: Any) -> BackupOperator:
    return BackupOperator(task_id="save", archive="shop", **more)


def run(operator: ArchiveJobOperator, context: dict[str, Any]) -> dict[str, Any]:
    """Execute as the task runner does; called plainly, the operator would warn of being outside one."""
    return dict(inspect.unwrap(type(operator).execute)(operator, context))


def locks_of(store: ObjectStore) -> list[str]:
    return [f"{info.resource} {info.mode}" for info in locking.inspect(store)]


@contextmanager
def soon(action: Callable[[], object], *, when: Callable[[], bool]) -> Iterator[None]:
    """Do something in another thread as soon as a condition holds."""

    def wait_and_act() -> None:
        deadline = time.monotonic() + 30
        while not when() and time.monotonic() < deadline:
            time.sleep(0.01)
        action()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    yield
    thread.join()


def test_backup_runs_under_its_locks_and_returns_the_verified_commit(
    store: ObjectStore, spark: Spark, context: dict[str, Any]
) -> None:
    spark.play("succeed")
    summary = run(backup(), context)
    assert summary == {
        "commit": 1,
        "kind": "full",
        "rows": 7,
        "bytes": 70,
        "restorable_to": "2026-03-01T12:00:00Z",
        "position": "0/100",
        "begun": [],
        "gap": "",
    }
    assert spark.seen()["locks"] == ["format R save", "ingest-shop_db W save"]
    assert Archive.open(store).commit(1).kind == "backup"
    assert locks_of(store) == []


@pytest.mark.parametrize(
    "operator",
    [
        BackupOperator(task_id="save", archive="shop"),
        RestoreOperator(task_id="save", archive="shop", target_conn_id="shop_postgres"),
    ],
    ids=["backup", "restore"],
)
def test_what_airflow_fills_in_is_what_the_operator_was_given(operator: ArchiveJobOperator) -> None:
    assert [field for field in operator.template_fields if callable(getattr(operator, field))] == []
    own = inspect.signature(type(operator).__init__).parameters
    assert [name for name in own if hasattr(operator, name) and callable(getattr(operator, name))] == []


def test_backup_tells_who_is_scheduled_on_it_what_it_was(
    store: ObjectStore, spark: Spark, context: dict[str, Any]
) -> None:
    spark.play("succeed")
    other = Asset(name="other", uri="s3://reports/daily")
    context["outlet_events"] = {asset: SimpleNamespace(extra={}) for asset in (backups_of("shop"), other)}
    summary = run(backup(outlets=[backups_of("shop"), other]), context)
    assert context["outlet_events"][backups_of("shop")].extra == {"source": "shop_db", **summary}
    assert context["outlet_events"][other].extra == {}


def test_backup_of_changes_that_became_a_full_one_says_why(
    store: ObjectStore,
    spark: Spark,
    context: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def decide(store: ObjectStore, address: object, wanted: Any, say: Callable[[str], None]) -> Decision:
        say("no changes can be joined to what is here: the slot is gone")
        return Decision(gap="the slot is gone")

    monkeypatch.setattr("holdfast.backups.decide", decide)
    spark.play("begin anew")
    context["outlet_events"] = {backups_of("shop"): SimpleNamespace(extra={})}
    summary = run(backup(kind="changes", outlets=[backups_of("shop")]), context)
    assert (summary["kind"], summary["gap"]) == ("full", "the slot is gone")
    assert context["outlet_events"][backups_of("shop")].extra["gap"] == "the slot is gone"
    assert "no changes can be joined to what is here: the slot is gone" in capsys.readouterr().out


def test_backup_of_changes_that_begins_anew_with_a_table_says_which_and_why(
    store: ObjectStore,
    spark: Spark,
    context: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("holdfast.backups.decide", lambda *_: Decision(kind="changes"))
    spark.play("changes")
    summary = run(backup(), context)
    assert (summary["kind"], summary["commit"], summary["begun"]) == ("changes", 1, ["public.late"])
    assert len(spark.starts()) == 3  # changes, the snapshot, and the changes up to it
    said = "a snapshot of its own is taken of public.late (its key was changed), public.new (it has none yet)"
    assert said in capsys.readouterr().out


def test_changes_that_were_committed_do_not_make_a_success_of_a_task_that_was_to_do_more(
    store: ObjectStore, spark: Spark, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.backups.decide", lambda *_: Decision(kind="changes"))
    spark.play("refuse after changes")
    with pytest.raises(JobRefused, match="asked to refuse after changes"):
        run(backup(), context)
    assert len(Archive.open(store).commits) == 1


def test_backup_is_submitted_with_its_arguments(store: ObjectStore, spark: Spark, context: dict[str, Any]) -> None:
    spark.play("succeed")
    run(backup(kind="full", tables=["sales.*", "hr.*"], conf={"spark.cores.max": "2"}), context)
    argv = spark.seen()["argv"]
    application = next(part for part in argv if part.endswith("sparkjobs/backup.py"))
    options = argv[argv.index(application) + 1 :]
    assert options[:2] == ["--archive", find_archive("shop").only_url()]
    chosen = ["--tables", "sales.*", "--tables", "hr.*", "--chosen"]
    assert options[4:] == ["--source", "shop_db", "--kind", "full", *chosen, *RETAINED]
    assert argv[argv.index("--master") + 1] == "local[2]"
    assert "spark.cores.max=2" in argv
    assert "spark.speculation=false" in argv


def test_tables_come_from_the_configuration_unless_given(
    store: ObjectStore, spark: Spark, context: dict[str, Any], configuration: Path
) -> None:
    configuration.write_text(
        "archives: {shop: {url: archive, sources: "
        "{shop_db: {connection: shop_postgres, tables: [sales.*], exclude: [sales.tmp]}}}}"
    )
    spark.play("succeed")
    run(backup(tables=[]), context)
    argv = spark.seen()["argv"]
    assert argv[argv.index("--kind") + 2 :] == ["--tables", "sales.*", "--exclude", "sales.tmp", *RETAINED]


def test_limits_come_from_the_configuration_unless_given(
    store: ObjectStore, spark: Spark, context: dict[str, Any], configuration: Path
) -> None:
    configuration.write_text(
        "archives: {shop: {url: archive, sources: "
        "{shop_db: {connection: shop_postgres, connections: 3, bandwidth: 50 MB/s}}}}"
    )
    spark.play("succeed")
    run(backup(), context)
    argv = spark.seen()["argv"]
    assert argv[argv.index("--connections") :] == ["--connections", "3", "--bandwidth", "50000000.0"]
    run(backup(connections=1, bandwidth="2 kB"), context)
    argv = spark.seen()["argv"]
    assert argv[argv.index("--connections") :] == ["--connections", "1", "--bandwidth", "2000.0"]


def test_restore_is_submitted_with_its_arguments_and_target(
    store: ObjectStore, spark: Spark, context: dict[str, Any]
) -> None:
    spark.play("succeed")
    operator = RestoreOperator(
        task_id="save",
        archive="shop",
        target_conn_id="shop_postgres",
        at="commit:1",
    )
    assert run(operator, context) == {
        "commit": 1,
        "restored_to": "2026-03-01T12:00:00Z",
        "position": "0/100",
        "tables": 2,
        "rows": 7,
        "seconds": 1.5,
        "not_restored": [],
        "skipped_existing": [],
        "unlogged": [],
        "stale": [],
        "schema_note": "",
    }
    seen = spark.seen()
    expected = ["--source", "shop_db", "--at", "commit:1"]
    assert seen["argv"][-len(expected) :] == expected
    assert seen["locks"] == ["format R save", "history R save"]
    assert seen["env"]["HOLDFAST_TARGET_URL"] == "postgresql://me@db.example:5433/shop?sslmode=require"
    assert "HOLDFAST_SOURCE_URL" not in seen["env"]


def test_restore_passes_on_what_becomes_of_roles_and_tablespaces(
    store: ObjectStore, spark: Spark, context: dict[str, Any]
) -> None:
    spark.play("plan")
    options = {"roles": "create", "tablespaces": "keep"}
    operator = RestoreOperator(task_id="save", archive="shop", target_conn_id="shop_postgres", **options)
    run(operator, context)
    expected = ["--at", "latest", "--roles", "create", "--tablespaces", "keep"]
    assert spark.seen()["argv"][-len(expected) :] == expected


@pytest.mark.parametrize(("wanted", "flag"), [(True, ["--dry-run"]), ("True", ["--dry-run"]), ("False", [])])
def test_restore_passes_on_tables_names_and_the_wish_for_a_plan(
    store: ObjectStore, spark: Spark, context: dict[str, Any], wanted: bool | str, flag: list[str]
) -> None:
    spark.play("plan")
    operator = RestoreOperator(
        task_id="save",
        archive="shop",
        target_conn_id="shop_postgres",
        tables=["sales.*", "hr.people"],
        map=["sales=old_sales"],
        only_plan=wanted,
    )
    summary = run(operator, context)
    assert (summary["dry_run"], summary["plan"], summary["not_restored"]) == (True, {"tables": []}, [])
    expected = ["--at", "latest", "--tables", "sales.*", "--tables", "hr.people", "--map", "sales=old_sales", *flag]
    assert spark.seen()["argv"][-len(expected) :] == expected


def test_a_commit_with_another_block_is_no_success(store: ObjectStore, spark: Spark, context: dict[str, Any]) -> None:
    spark.play("swap")
    with pytest.raises(JobRefused, match="does not hold the block"):
        run(backup(), context)
    assert locks_of(store) == []


def test_no_lock_is_left_where_there_is_no_archive(
    tmp_path: Path, spark: Spark, context: dict[str, Any], configuration: Path
) -> None:
    configuration.write_text("archives: {shop: {url: nothing, sources: {shop_db: {connection: shop_postgres}}}}")
    spark.play("succeed")
    with pytest.raises(JobRefused, match="is not an archive"):
        run(backup(), context)
    assert not (tmp_path / "nothing" / "locks").exists()


def test_password_is_in_the_jobs_environment_and_nowhere_else(
    store: ObjectStore, spark: Spark, context: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    spark.play("succeed")
    operator = backup()
    with caplog.at_level(logging.DEBUG):
        summary = run(operator, context)
    seen = spark.seen()
    assert seen["env"]["PGPASSWORD"] == PASSWORD
    assert seen["env"]["HOLDFAST_SOURCE_URL"] == "postgresql://me@db.example:5433/shop?sslmode=require"
    rendered = {name: getattr(operator, name) for name in operator.template_fields}
    for place in (seen["argv"], summary, rendered, operator.application_args, operator.conf, operator.env_vars):
        assert "hunter2" not in str(place)
    runs = [store.get(info.key) for info in store.list("runs/").objects]
    assert runs
    assert not any(b"hunter2" in body for body in runs)


def test_password_is_masked_where_the_job_prints_it(
    store: ObjectStore, spark: Spark, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    masked: list[str] = []
    monkeypatch.setattr("holdfast_airflow.connections.mask_secret", masked.append)
    spark.play("succeed")
    run(backup(), context)
    assert masked == [PASSWORD, "hunter2%2F%25%26"]


@pytest.mark.parametrize(
    ("part", "kind", "code", "sentence"),
    [
        ("refuse", JobRefused, 5, "asked to refuse: do something else"),
        ("bad usage", JobRefused, 2, "asked to bad usage: do something else"),
        ("die", JobFailed, 1, "the backup job was ended while reading tables"),
        ("no java", JobFailed, 1, "spark-submit ended before the backup job began.*JAVA_HOME is not set"),
    ],
)
def test_failure_is_the_jobs_own_sentence_and_the_locks_are_released(
    store: ObjectStore,
    spark: Spark,
    context: dict[str, Any],
    part: str,
    kind: type[JobFailed],
    code: int,
    sentence: str,
) -> None:
    spark.play(part)
    with pytest.raises(JobFailed, match=sentence) as caught:
        run(backup(), context)
    assert type(caught.value) is kind
    assert caught.value.exit_code == code
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert "Cannot execute" not in str(caught.value)
    assert locks_of(store) == []


def test_refusal_is_not_tried_again() -> None:
    assert issubclass(JobRefused, AirflowFailException)
    assert issubclass(JobFailed, AirflowException)
    assert not issubclass(JobFailed, AirflowFailException)


def test_commit_that_is_not_in_the_archive_is_no_success(
    store: ObjectStore, spark: Spark, context: dict[str, Any]
) -> None:
    spark.play("boast")
    with pytest.raises(JobFailed, match="there is no commit 2"):
        run(backup(), context)


def test_job_that_fails_after_its_commit_has_succeeded(
    store: ObjectStore, spark: Spark, context: dict[str, Any]
) -> None:
    spark.play("fail after the commit")
    assert run(backup(), context)["commit"] == 1


def test_job_that_was_killed_is_started_again_in_the_same_snapshot(
    store: ObjectStore, spark: Spark, context: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    spark.play("die once")
    assert run(backup(), context)["commit"] == 1
    first, second = spark.starts()
    assert first == second != ""
    said = "the job was ended from outside while reading tables: starting it again (attempt 2 of 3)"
    assert said in capsys.readouterr().out
    (name,) = {info.key.split("/")[1] for info in store.list("runs/").objects}
    record = read_last(store, name)
    assert record is not None
    assert record.said == (said,)


def test_job_that_is_killed_each_time_is_given_up(store: ObjectStore, spark: Spark, context: dict[str, Any]) -> None:
    spark.play("die")
    with pytest.raises(JobFailed, match="was ended while reading tables"):
        run(backup(), context)
    assert len(spark.starts()) == 3
    assert locks_of(store) == []


def test_job_whose_snapshot_is_gone_is_started_again_in_a_new_one_and_says_why(
    store: ObjectStore,
    spark: Spark,
    context: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    spark.gone.append("server closed the connection")
    spark.play("die once")
    assert run(backup(), context)["commit"] == 1
    assert len(set(spark.starts())) == len(spark.starts()) == 2
    said = "starting again from nothing: the session that held the snapshot was cut (server closed"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("part", ["refuse", "bad usage"])
def test_job_that_said_why_it_failed_is_not_started_again(
    store: ObjectStore, spark: Spark, context: dict[str, Any], part: str
) -> None:
    spark.play(part)
    with pytest.raises(JobRefused):
        run(backup(), context)
    assert len(spark.starts()) == 1


def test_job_that_was_killed_after_its_commit_has_succeeded(
    store: ObjectStore, spark: Spark, context: dict[str, Any]
) -> None:
    spark.play("die after the commit")
    assert run(backup(), context)["commit"] == 1
    assert len(spark.starts()) == len(Archive.open(store).commits) == 1


def test_snapshot_that_cannot_be_taken_fails_the_task_before_spark_is_started(
    store: ObjectStore, spark: Spark, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(address: object) -> None:
        raise RefusedError("reader may not read public.secrets")

    monkeypatch.setattr("holdfast.backups.hold_snapshot", refuse)
    with pytest.raises(JobRefused, match="may not read"):
        run(backup(), context)
    assert not spark.note.exists()
    (found,) = store.list("runs/").objects
    assert b"may not read" in store.get(found.key)


def test_busy_lock_defers_to_a_trigger(store: ObjectStore, spark: Spark, context: dict[str, Any]) -> None:
    with RWLock(store, "ingest-shop_db").write(purpose="another backup"), pytest.raises(TaskDeferred) as caught:
        run(backup(lock_wait=timedelta(minutes=5)), context)
    deferral = caught.value
    assert isinstance(deferral.trigger, PlanFreeTrigger)
    assert deferral.trigger.operation == "backup"
    assert deferral.trigger.sources == ["shop_db"]
    assert deferral.method_name == "execute_when_free"
    left = datetime.fromisoformat((deferral.kwargs or {})["deadline"]) - datetime.now(UTC)
    assert timedelta(minutes=4) < left <= timedelta(minutes=5)
    assert not spark.note.exists()
    assert locks_of(store) == []


def test_deferred_task_goes_on_when_the_lock_is_free(store: ObjectStore, spark: Spark, context: dict[str, Any]) -> None:
    spark.play("succeed")
    deadline = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    summary = backup().execute_when_free(context, {"state": "free"}, deadline)  # type: ignore[arg-type]
    assert summary["commit"] == 1


def test_lock_that_stays_busy_fails_the_task_with_the_holders_name(store: ObjectStore, context: dict[str, Any]) -> None:
    event = {"state": "expired", "message": "ingest-shop_db is held by dag other"}
    with pytest.raises(LockWaitExpired, match="held by dag other") as caught:
        backup().execute_when_free(context, event, datetime.now(UTC).isoformat())  # type: ignore[arg-type]
    assert caught.value.exit_code == 3
    with (
        RWLock(store, "ingest-shop_db").write(purpose="another backup"),
        pytest.raises(LockWaitExpired, match=r"ingest-shop_db.*another backup"),
    ):
        run(backup(lock_wait=timedelta(0)), context)


def test_kill_ends_the_whole_job_and_releases_the_locks_within_five_seconds(
    store: ObjectStore, spark: Spark, context: dict[str, Any]
) -> None:
    spark.play("hang")
    operator = backup()
    took: list[float] = []

    def kill() -> None:
        began = time.monotonic()
        operator.on_kill()
        took.append(time.monotonic() - began)

    with soon(kill, when=spark.note.exists), pytest.raises(JobFailed, match="the task was killed"):
        run(operator, context)
    assert len(spark.starts()) == 1
    assert took[0] < 5
    assert not any(psutil.pid_exists(pid) for pid in spark.seen()["pids"])
    assert locks_of(store) == []


def test_no_process_of_a_dead_job_outlives_the_task(store: ObjectStore, spark: Spark, context: dict[str, Any]) -> None:
    spark.play("orphan")
    with pytest.raises(JobFailed, match="was ended"):
        run(backup(), context)
    assert not any(
        psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in spark.seen()["pids"]
    )


def test_timeout_ends_the_job_before_the_locks_are_released(
    store: ObjectStore, spark: Spark, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    operator = backup()

    def time_out(*_: Any) -> None:
        raise AirflowTaskTimeout("too long")

    monkeypatch.setattr("airflow.providers.apache.spark.hooks.spark_submit.SparkSubmitHook.submit", time_out)
    monkeypatch.setattr("holdfast_airflow.operators.job.end_job", lambda run: order.append("end"))
    monkeypatch.setattr(operator, "_release", lambda: order.append("release"))
    with pytest.raises(AirflowTaskTimeout):
        run(operator, context)
    assert order == ["end", "release"]


def test_task_killed_while_it_takes_its_locks_starts_no_job(
    store: ObjectStore, spark: Spark, context: dict[str, Any]
) -> None:
    operator = backup()
    operator.on_kill()
    with pytest.raises(JobFailed, match="killed before its job began"):
        run(operator, context)
    assert not spark.note.exists()
    assert locks_of(store) == []


def test_failed_release_does_not_fail_a_finished_backup(
    store: ObjectStore, spark: Spark, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> None:
        raise locking.LockStateUnknown("the store is gone")

    monkeypatch.setattr("holdfast.archive.locks.HeldLocks.release", fail)
    spark.play("succeed")
    assert run(backup(), context)["commit"] == 1


def test_missing_spark_connection_is_refused_and_not_taken_for_yarn(
    store: ObjectStore, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JobRefused, match=r"there is no Airflow connection 'nowhere'.*AIRFLOW_CONN_NOWHERE"):
        run(backup(spark_conn_id="nowhere"), context)


@pytest.mark.parametrize(
    ("connection", "more"),
    [
        ('{"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}', {}),
        ('{"conn_type": "spark", "host": "k8s://https://k"}', {"deploy_mode": "cluster"}),
        ('{"conn_type": "spark", "host": "spark://m:7077"}', {"conf": {"spark.submit.deployMode": "cluster"}}),
    ],
)
def test_cluster_mode_is_refused_because_it_would_show_the_password(
    store: ObjectStore,
    context: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    connection: str,
    more: dict[str, Any],
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    with pytest.raises(JobRefused, match=r"password would .* visible.*set its extra 'deploy-mode' to 'client'"):
        run(backup(**more), context)
    assert locks_of(store) == []


def test_environment_stays_out_of_the_command_on_yarn(
    store: ObjectStore, spark: Spark, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "yarn"}')
    spark.play("succeed")
    run(backup(), context)
    assert "hunter2" not in str(spark.seen()["argv"])
    assert "HOLDFAST_LOCKS" not in str(spark.seen()["argv"])
    assert spark.seen()["env"]["PGPASSWORD"] == PASSWORD


def test_missing_spark_submit_says_what_to_install(
    store: ObjectStore, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    monkeypatch.setattr("holdfast_airflow.operators.job.check_java", lambda: None)
    with pytest.raises(JobFailed, match="spark-submit was not found: install pyspark"):
        run(backup(), context)
    assert locks_of(store) == []


def test_unknown_archive_and_source_are_refused(store: ObjectStore, context: dict[str, Any]) -> None:
    with pytest.raises(JobRefused, match=r"no archive 'shopp'.*did you mean 'shop'"):
        run(BackupOperator(task_id="save", archive="shopp"), context)
    with pytest.raises(JobRefused, match=r"no source 'shop_bd'.*did you mean 'shop_db'"):
        run(backup(source="shop_bd"), context)


def test_place_that_is_no_archive_fails_with_a_sentence(spark: Spark, context: dict[str, Any], tmp_path: Path) -> None:
    spark.play("succeed")
    operator = BackupOperator(
        task_id="save", archive=str(tmp_path / "empty"), source="shop_db", source_conn_id="shop_postgres"
    )
    with pytest.raises(JobRefused, match="is not an archive"):
        run(operator, context)
