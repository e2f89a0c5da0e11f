"""An Airflow home of our own, an archive, connections, and a spark-submit that plays a part."""

from __future__ import annotations

import atexit
import itertools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

# Before the first import of Airflow, which reads (and writes) its configuration in this folder.
if "airflow" not in sys.modules:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="holdfast-airflow-home-")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from holdfast.archive import Archive
from holdfast.operations.backup_decision import Decision
from holdfast.operations.executor_choice import FORCED_VARIABLE
from holdfast.operations.job_process import job_environment
from holdfast.postgresql.dump import programs
from holdfast.replication.log.store import CoordinationStore
from holdfast.storage import ObjectStore, open_store
from tests.support.airflow.fake_spark import answering
from tests.support.airflow.operators import PASSWORD, FakeSpark
from tests.support.replicas.replicated import Replicas

ROOT = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """The store of an empty archive called shop, with its archives.yaml in force."""
    found = open_store(str(tmp_path / "archive"))
    Archive.create(found, name="shop")
    return found


@pytest.fixture(autouse=True)
def _any_pg_dump_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their source asks for TLS and is nowhere: a pg_dump that suits every server keeps it from being asked."""
    monkeypatch.setattr(programs, "has_tls", lambda program: True)


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """archives.yaml with the archive `shop` and its source `shop_db`, and the connections it needs."""
    path = tmp_path / "archives.yaml"
    path.write_text("archives: {shop: {url: archive, sources: {shop_db: {connection: shop_postgres}}}}")
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(path))
    monkeypatch.setenv(
        "AIRFLOW_CONN_SHOP_POSTGRES",
        json.dumps(
            {
                "conn_type": "postgres",
                "host": "db.example",
                "port": 5433,
                "login": "me",
                "password": PASSWORD,
                "schema": "shop",
                "extra": {"sslmode": "require", "cursor": "dictcursor"},
            }
        ),
    )
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    return path


@pytest.fixture
def closed_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closes what the hook leaves to the garbage collector, whose warning would be an error here."""

    def submit_and_close(hook: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return submit(hook, *args, **kwargs)
        finally:
            hook._submit_sp.stdout.close()

    submit = SparkSubmitHook.submit
    monkeypatch.setattr(SparkSubmitHook, "submit", submit_and_close)


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed_pipes: None) -> Iterator[FakeSpark]:
    """A spark-submit that plays the part given to `play`; it comes first on the path of every job."""
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()
    # Without what Python looks for at its start: it needs nothing but what comes with it.
    script.write_text(
        f'#!/bin/sh\nexec {sys.executable} -I -S {ROOT}/tests/support/airflow/fake_spark_submit.py "$@"\n'
    )
    script.chmod(0o755)
    note = tmp_path / "note.json"
    monkeypatch.setenv(FORCED_VARIABLE, "spark")
    monkeypatch.setenv("FAKE_SPARK_NOTE", str(note))

    def with_fake_first(*args: Any, **kwargs: Any) -> dict[str, str]:
        environment = job_environment(*args, **kwargs)
        return {**environment, "PATH": f"{script.parent}{os.pathsep}{environment['PATH']}"}

    monkeypatch.setattr("holdfast.operations.job_process.job_environment", with_fake_first)
    numbers = itertools.count(1)
    gone: list[str] = []

    @contextmanager
    def hold_snapshot(address: object, *, ddl_waits: bool) -> Iterator[SimpleNamespace]:
        snapshot = SimpleNamespace(to_json=partial(str, f"snapshot {next(numbers)}"))
        yield SimpleNamespace(snapshot=snapshot, why_gone=lambda: gone.pop() if gone else "")

    monkeypatch.setattr("holdfast.operations.backup_run.hold_snapshot", hold_snapshot)
    monkeypatch.setattr("holdfast.operations.backup_run.database_bytes", lambda address: 1 << 40)
    monkeypatch.setattr("holdfast.operations.backup_run.decide", lambda *_: Decision())
    monkeypatch.setattr("holdfast_airflow.operators.job.check_java", lambda: None)  # it starts Java each time
    with answering() as name:
        monkeypatch.setenv("FAKE_SPARK_ANSWERS", name)
        yield FakeSpark(note, lambda part: monkeypatch.setenv("FAKE_SPARK", part), gone)


@pytest.fixture
def context() -> dict[str, Any]:
    """What Airflow gives a running task, as far as the operators look at it."""
    return {"ti": SimpleNamespace(dag_id="nightly", run_id="run 1", task_id="save", map_index=-1)}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replicas]:
    """An archive with the replicas `near` and `far`, which archives.yaml knows."""
    address = f"sqlite:///{tmp_path}/coordination.db"
    config = tmp_path / "archives.yaml"
    config.write_text(
        f"archives:\n  shop:\n    replicas: {{near: {tmp_path}/near, far: {tmp_path}/far}}\n    store: {address}\n"
        f"  alone:\n    url: {tmp_path}/alone\n"
    )
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(config))
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    with CoordinationStore.open(address) as coordination:
        yield Replicas.begun(tmp_path, coordination, "far")
