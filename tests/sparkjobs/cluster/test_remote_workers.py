"""Jobs on a standalone cluster of Spark whose workers know nothing: no store, no key, no database."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

import holdfast
from bench.support.spark_cluster import SparkCluster, running_cluster
from bench.support.versitygw import SECRET_KEY, S3Server, running_versitygw
from holdfast.archive import Archive
from holdfast.archive.maintenance.verify import verify
from holdfast.common.remote_environment import IDENTITY_VARIABLE
from holdfast.postgresql.connection.address import Address
from holdfast.storage import ObjectStore
from holdfast.storage.encryption.key_source import new_key
from tests.support.jobs.command import Finished, finish, run, start, until
from tests.support.jobs.command_here import run_here
from tests.support.servers.certificates import Authority
from tests.support.servers.small_disk import small_disk

pytestmark = [pytest.mark.service, pytest.mark.exhaustive]  # each cluster takes a quarter of a minute

URL = "s3://backups/shop"


def remedies(done: Finished) -> dict[str, str]:
    """Return what failed, with what to do, without the name of the only worker."""
    failed = [each for each in done.value["findings"] if each["remedy"]]
    assert (done.code, done.value["ok"]) == (1, False), done.err
    return {each["what"].rpartition(": ")[2]: each["remedy"] for each in failed}


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with running_cluster() as made:
        yield made


def test_an_encrypted_backup_on_s3_comes_back_and_no_worker_keeps_a_secret(
    s3: S3Server, cluster: SparkCluster, create_database: Callable[..., Address], tmp_path: Path
) -> None:
    source = create_database(
        "create table orders as select i as id, md5(i::text) as name from generate_series(1, 9999) i"
    )
    target = create_database()
    key = tmp_path / "key"
    key.write_text(new_key())
    driver = {**s3.environment, "HOLDFAST_KEY": f"file:{key}"}
    assert run_here("init", URL, more=driver).code == 0
    done = [
        run(*words, "--json", address=source, more={**driver, **cluster.environment})
        for words in (
            ("backup", URL, "--source", source.url),
            ("restore", URL, "--to", target.url),
        )
    ]
    assert [each.code for each in done] == [0, 0], [each.err for each in done]
    assert (done[0].value["rows"], done[1].value["equal"]) == (9999, True)

    assert source.password
    kept = [path for path in cluster.folder.rglob("*") if path.is_file() and path.name != "spark-defaults.conf"]
    assert {"events", "work-0"} <= {path.relative_to(cluster.folder).parts[0] for path in kept}
    settings = "".join(path.read_text() for path in (cluster.folder / "events").rglob("events_*"))
    for name in ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled"):
        assert f'"{name}":"true"' in settings
    pages = [httpx.get(f"{page}/json").content for page in cluster.ui]
    for secret in (SECRET_KEY, source.password, key.read_text().strip()):
        assert not any(secret in each.out + each.err for each in done)
        assert [path for path in kept if secret.encode() in path.read_bytes()] == []
        assert not any(secret.encode() in page for page in pages)


def test_the_doctor_asks_each_worker_for_what_jobs_need(
    s3: S3Server, cluster: SparkCluster, create_database: Callable[..., Address], tmp_path: Path
) -> None:
    source = create_database()
    key = tmp_path / "key"
    key.write_text(new_key())
    configuration = tmp_path / "archives.yaml"
    configuration.write_text(
        f"archives: {{asked: {{url: s3://backups/asked, sources: {{db: {{url: '{source.url}'}}}}}}}}"
    )
    driver = {**s3.environment, "HOLDFAST_ARCHIVES": str(configuration), "HOLDFAST_KEY": f"file:{key}"}
    assert run_here("init", "asked", more=driver).code == 0
    done = run("doctor", "asked", "--cluster", "--json", address=source, more={**driver, **cluster.environment})
    findings = {each["what"]: each for each in done.value["findings"]}
    assert (done.code, [each for each in findings.values() if each["remedy"]]) == (0, []), done.err
    assert findings["cluster"]["found"].startswith(f"{cluster.url}, 2 of 2 executors answered")
    asked = ("release", "disk", "folder", "archive", "writing", "source db", "clock")
    names = [f"worker {os.uname().nodename} #{number}: {what}" for number in (1, 2) for what in asked]
    assert {"authentication", "encryption", "clock of the store", *names} <= findings.keys()
    assert [path.name for path in (s3.folder / "backups" / "asked").rglob("*") if "scratch" in path.name] == []
    assert source.password
    kept = [path for path in cluster.folder.rglob("*") if path.is_file()]
    for secret in (SECRET_KEY, source.password, key.read_text().strip()):
        assert secret not in done.out + done.err
        assert [path for path in kept if secret.encode() in path.read_bytes()] == []


def test_a_drill_runs_where_its_server_is_whatever_cluster_there_is(
    store: ObjectStore, cluster: SparkCluster, create_database: Callable[..., Address]
) -> None:
    source = create_database("create table orders as select 1 as id")
    assert run_here("backup", store.url, "--source", source.url, address=source).code == 0
    before = cluster.applications
    with tempfile.TemporaryDirectory() as folder:  # whose way is open to the user that the drill's server runs as
        Path(folder).chmod(0o711)
        done = run("drill", store.url, "--json", address=source, more={**cluster.environment, "TMPDIR": folder})
    assert (done.code, cluster.applications) == (0, before), done.err


@pytest.mark.parametrize(
    ("worker", "said", "remedy"),
    [
        (
            "exec {python} -S",
            "Spark's workers have no Holdfast in their Python: install Holdfast",
            f"Holdfast is missing there and {holdfast.__version__} here",
        ),
        (
            "PYTHONPATH={folder}:$PYTHONPATH exec {python}",
            "has Holdfast 0.0.9 at",
            f"Holdfast 0.0.9 there and {holdfast.__version__} here",
        ),
    ],
    ids=["none", "another release"],
)
def test_workers_without_this_release_are_named_by_a_job_and_by_the_doctor(
    worker: str, said: str, remedy: str, store: ObjectStore, create_database: Callable[..., Address], tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text('import holdfast\nholdfast.__version__ = "0.0.9"\n')
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n{worker.format(python=sys.executable, folder=tmp_path)} "$@"\n')
    python.chmod(0o755)
    source = create_database("create table orders as select 1 as id")
    with running_cluster(workers=1, python=str(python)) as cluster:
        done = run("backup", store.url, "--source", source.url, "--json", address=source, more=cluster.environment)
        doctor = run("doctor", store.url, "--cluster", "--json", more=cluster.environment)
    assert (done.code, said in done.value["error"]) == (2, True), done.err
    assert [each[: len(remedy)] for each in remedies(doctor).values()] == [remedy]


def test_what_workers_cannot_reach_is_said_before_any_work(
    s3: S3Server, cluster: SparkCluster, create_database: Callable[..., Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = create_database("create table orders as select 1 as id")
    driver = {**s3.environment, IDENTITY_VARIABLE: "own"}  # which workers on this machine have none of
    assert run_here("init", "s3://backups/own", more=driver).code == 0
    done = run(
        "backup",
        "s3://backups/own",
        "--source",
        source.url,
        "--json",
        address=source,
        more=driver | cluster.environment,
    )
    assert done.code == 1
    assert "Spark's workers cannot do what this machine can: on " in done.value["error"]
    assert "credentials" in done.value["error"].lower()


def test_a_worker_that_is_killed_in_the_middle_costs_nothing(
    store: ObjectStore, create_database: Callable[..., Address]
) -> None:
    source = create_database(
        *(
            f"create table t{i} as select i as id, repeat('x', 1000) as word from generate_series(1, 20000) i"
            for i in range(8)
        )
    )
    with running_cluster() as cluster:
        backup = start("backup", store.url, "--source", source.url, "--json", address=source, more=cluster.environment)
        until(lambda: list((Path(store.url) / "data").rglob("*.parquet")), "the first file of the backup", 120)
        os.killpg(cluster.workers[0], signal.SIGKILL)
        done = finish(backup)
    assert (done.code, done.value["rows"]) == (0, 160_000), done.err
    assert not verify(Archive.open(store), deep=True).damage


@pytest.fixture(scope="module")
def starved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A cluster whose only worker has hardly any disk."""
    with (
        small_disk(tmp_path_factory.mktemp("worker") / "disk", "8m") as disk,
        running_cluster(workers=1, spark_local_dir=str(disk)) as made,
    ):
        yield made


def test_a_full_disk_and_a_store_that_the_worker_may_not_read_are_told(s3: S3Server, starved: SparkCluster) -> None:
    driver = {**s3.environment, IDENTITY_VARIABLE: "own"}  # which a worker on this machine has none of
    assert run_here("init", "s3://backups/own", more=driver).code == 0
    failed = remedies(run("doctor", "s3://backups/own", "--cluster", "--json", more=driver | starved.environment))
    assert failed.keys() == {"disk", "archive"}
    assert "free some, or set SPARK_LOCAL_DIRS" in failed["disk"]
    assert "no S3 credentials; set AWS_ACCESS_KEY_ID" in failed["archive"]


def test_a_certificate_that_is_not_good_is_told_of_each_worker(starved: SparkCluster, tmp_path: Path) -> None:
    own, other = (Authority.made(tmp_path, name) for name in ("own", "other"))
    with running_versitygw(certificate=own.server(tmp_path)) as server:
        server.make_bucket("backups")
        driver = {**server.environment, "AWS_CA_BUNDLE": str(other.certificate)}
        done = run("doctor", "s3://backups/shop", "--cluster", "--json", more=driver | starved.environment)
    said = [each["remedy"] for each in done.value["findings"] if each["what"].endswith("archive")]
    assert len(said) == 2  # of this machine, and of the worker
    assert all("certificates in AWS_CA_BUNDLE" in each for each in said), said
