"""Operators whose work a job does: locks, then Spark, then the look into the archive, then release."""

from __future__ import annotations

import inspect
import logging
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferred

from holdfast.archive import Archive
from holdfast.archive.locks import HeldLocks
from holdfast.operations.executor_choice import FORCED_VARIABLE
from holdfast.operations.job_process import process_start
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import ObjectStore, open_store
from holdfast.storage.encryption.key_source import new_key
from holdfast_airflow.exceptions import JobFailed, JobRefused, LockWaitExpired
from holdfast_airflow.operators import (
    BackupOperator,
    CompactOperator,
    MigrateOperator,
    RestoreOperator,
    TruncateOperator,
    VacuumOperator,
    VerifyOperator,
)
from holdfast_airflow.operators.job import ArchiveJobOperator
from holdfast_airflow.triggers.lock import PlanFreeTrigger
from locking import RWLock
from tests.support.airflow.operators import PASSWORD, FakeSpark, backup, locks_of, run

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """No database is asked how large it is."""
    monkeypatch.setenv(FORCED_VARIABLE, "spark")


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


@pytest.mark.parametrize(
    "operator",
    [
        BackupOperator(task_id="save", archive="shop"),
        CompactOperator(task_id="save", archive="shop"),
        MigrateOperator(task_id="save", archive="shop", to=2),
        RestoreOperator(task_id="save", archive="shop", target_conn_id="shop_postgres"),
        TruncateOperator(task_id="save", archive="shop"),
        VacuumOperator(task_id="save", archive="shop"),
        VerifyOperator(task_id="save", archive="shop"),
    ],
    ids=lambda operator: operator.operation,
)
def test_what_airflow_fills_in_is_what_the_operator_was_given(operator: ArchiveJobOperator) -> None:
    assert [field for field in operator.template_fields if callable(getattr(operator, field))] == []
    own = inspect.signature(type(operator).__init__).parameters
    assert [name for name in own if hasattr(operator, name) and callable(getattr(operator, name))] == []


def test_no_lock_is_left_where_there_is_no_archive(
    tmp_path: Path, spark: FakeSpark, context: dict[str, Any], configuration: Path
) -> None:
    configuration.write_text("archives: {shop: {url: nothing, sources: {shop_db: {connection: shop_postgres}}}}")
    spark.play("succeed")
    with pytest.raises(JobRefused, match="is not an archive"):
        run(backup(), context)
    assert not (tmp_path / "nothing" / "locks").exists()


@pytest.mark.service
def test_a_target_that_is_not_empty_is_refused_before_locks_and_spark(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(address) as session:
        session.execute("create table public.mine (id int)")
    operator = RestoreOperator(task_id="back", archive="shop", target_conn_id="target")
    monkeypatch.setattr(operator, "database", lambda archive: ("shop_db", address))
    monkeypatch.setattr(operator, "start", lambda *arguments: pytest.fail("a job was started"))
    with pytest.raises(JobRefused, match=r"is not empty: it has public\.mine"):
        run(operator, context)


def test_password_is_in_the_jobs_environment_and_nowhere_else(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], caplog: pytest.LogCaptureFixture
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


def test_an_encrypted_archives_key_is_looked_up_by_the_job_itself(
    configuration: Path, tmp_path: Path, spark: FakeSpark, context: dict[str, Any]
) -> None:
    (tmp_path / "key").write_text(new_key())
    key = f"file:{tmp_path / 'key'}"
    sources = "sources: {shop_db: {connection: shop_postgres}}"
    configuration.write_text(f"archives: {{shop: {{url: secret, encryption: {{key: '{key}'}}, {sources}}}}}")
    encrypted = open_store(str(tmp_path / "secret"), key)
    Archive.create(encrypted, name="shop")
    spark.play("succeed")
    run(backup(), context)
    assert spark.seen()["env"]["HOLDFAST_KEY"] == key
    assert [each for each in encrypted.list("runs/").objects if each.size > 0]


def test_password_is_masked_where_the_job_prints_it(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
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
        ("die", JobFailed, 1, "the job's process ended while reading tables before it gave a reason"),
        ("no java", JobFailed, 1, "the job's process ended before it gave a reason.*JAVA_HOME is not set"),
    ],
)
def test_failure_is_the_jobs_own_sentence_and_the_locks_are_released(
    store: ObjectStore,
    spark: FakeSpark,
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


def test_busy_lock_defers_to_a_trigger(store: ObjectStore, spark: FakeSpark, context: dict[str, Any]) -> None:
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


def test_deferred_task_goes_on_when_the_lock_is_free(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any]
) -> None:
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
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any]
) -> None:
    spark.play("hang")
    operator = backup()
    took: list[float] = []

    def kill() -> None:
        began = time.monotonic()
        operator.on_kill()
        took.append(time.monotonic() - began)

    with soon(kill, when=spark.note.exists), pytest.raises(JobFailed, match="the task was killed, and its job with it"):
        run(operator, context)
    assert len(spark.starts()) == 1
    assert took[0] < 5
    assert [pid for pid in spark.seen()["pids"] if process_start(pid)] == []
    assert locks_of(store) == []


def test_kill_is_told_as_one_where_the_job_has_ended_before_its_exit_code_is_asked_for(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.play("hang")
    operator = backup()
    ended = threading.Event()

    def kill() -> None:
        operator.on_kill()
        ended.set()

    def late(process: subprocess.Popen[str], *given: Any, **more: Any) -> int:
        if threading.current_thread() is threading.main_thread():  # the task, once the job has said all
            assert ended.wait(30)
        return wait(process, *given, **more)

    wait = subprocess.Popen.wait
    monkeypatch.setattr(subprocess.Popen, "wait", late)
    with soon(kill, when=spark.note.exists), pytest.raises(JobFailed, match="the task was killed, and its job with it"):
        run(operator, context)
    assert len(spark.starts()) == 1


def test_no_process_of_a_dead_job_outlives_the_task(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any]
) -> None:
    spark.play("orphan")
    with pytest.raises(JobFailed, match="ended while reading tables"):
        run(backup(), context)
    assert [pid for pid in spark.seen()["pids"] if process_start(pid)] == []


def test_timeout_ends_the_job_before_the_locks_are_released(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    operator = backup()

    def time_out(*_: Any) -> None:
        raise AirflowTaskTimeout("too long")

    monkeypatch.setattr("airflow.providers.apache.spark.hooks.spark_submit.SparkSubmitHook.submit", time_out)
    monkeypatch.setattr("holdfast_airflow.operators.job.end_processes", lambda run: order.append("end"))
    release = HeldLocks.release

    def released(held: HeldLocks) -> None:
        order.append("release")
        release(held)

    monkeypatch.setattr(HeldLocks, "release", released)
    with pytest.raises(AirflowTaskTimeout):
        run(operator, context)
    assert order == ["end", "release"]


def test_task_killed_while_it_takes_its_locks_starts_no_job(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any]
) -> None:
    operator = backup()
    operator.on_kill()
    with pytest.raises(JobFailed, match="killed before its job began"):
        run(operator, context)
    assert not spark.note.exists()
    assert locks_of(store) == []


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


@pytest.mark.parametrize(
    "connection",
    [
        '{"conn_type": "spark", "host": "yarn"}',
        '{"conn_type": "spark", "host": "k8s://https://k", "port": 443, "extra": {"deploy-mode": "client"}}',
    ],
    ids=["yarn", "kubernetes"],
)
def test_environment_stays_out_of_the_command_on_a_cluster(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch, connection: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    spark.play("succeed")
    run(backup(), context)
    assert "hunter2" not in str(spark.seen()["argv"])
    assert "HOLDFAST_LOCKS" not in str(spark.seen()["argv"])
    assert spark.seen()["env"]["PGPASSWORD"] == PASSWORD


@pytest.mark.parametrize("raised", [None, ModuleNotFoundError("no module named airflow.providers.cncf")])
def test_kubernetes_without_airflows_provider_for_it_says_what_to_install(
    store: ObjectStore, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch, raised: Exception | None
) -> None:
    def not_found(name: str) -> None:
        if raised is not None:
            raise raised

    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "k8s://https://k"}')
    monkeypatch.setattr("holdfast_airflow.connections.find_spec", not_found)
    with pytest.raises(JobRefused, match=r"means Kubernetes, .*Holdfast's wheel with its extra kubernetes"):
        run(backup(), context)
    assert locks_of(store) == []


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
