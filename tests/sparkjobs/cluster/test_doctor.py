"""What `holdfast doctor --cluster` says of workers on which something is amiss."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from bench.support.spark_cluster import SparkCluster, running_cluster
from bench.support.versitygw import S3Server, running_versitygw
from holdfast.common.remote_environment import IDENTITY_VARIABLE
from holdfast.storage import ObjectStore
from tests.support.jobs.command import Finished, run
from tests.support.jobs.command_here import run_here
from tests.support.servers.certificates import Authority
from tests.support.servers.small_disk import small_disk

pytestmark = [pytest.mark.service, pytest.mark.exhaustive]  # each cluster takes a quarter of a minute


def remedies(done: Finished) -> dict[str, str]:
    """Return what failed, with what to do, without the name of the only worker."""
    failed = [each for each in done.value["findings"] if each["remedy"]]
    assert (done.code, done.value["ok"]) == (1, False), done.err
    return {each["what"].rpartition(": ")[2]: each["remedy"] for each in failed}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A cluster whose only worker has hardly any disk."""
    with (
        small_disk(tmp_path_factory.mktemp("worker") / "disk", "8m") as disk,
        running_cluster(workers=1, spark_local_dir=str(disk)) as made,
    ):
        yield made


def test_a_full_disk_and_a_store_that_the_worker_may_not_read_are_told(s3: S3Server, cluster: SparkCluster) -> None:
    driver = {**s3.environment, IDENTITY_VARIABLE: "own"}  # which a worker on this machine has none of
    assert run_here("init", "s3://backups/own", more=driver).code == 0
    failed = remedies(run("doctor", "s3://backups/own", "--cluster", "--json", more=driver | cluster.environment))
    assert failed.keys() == {"disk", "archive"}
    assert "free some, or set SPARK_LOCAL_DIRS" in failed["disk"]
    assert "no S3 credentials; set AWS_ACCESS_KEY_ID" in failed["archive"]


@pytest.mark.parametrize(
    ("days", "trusts", "told"),
    [(-1, "own", "has expired: have it renewed"), (1, "other", "certificates in AWS_CA_BUNDLE")],
    ids=["expired", "by nobody known"],
)
def test_a_certificate_that_is_not_good_is_told_of_each_worker(
    days: int, trusts: str, told: str, cluster: SparkCluster, tmp_path: Path
) -> None:
    known = {name: Authority.made(tmp_path, name) for name in ("own", "other")}
    with running_versitygw(certificate=known["own"].server(tmp_path, days=days)) as server:
        server.make_bucket("backups")
        driver = {**server.environment, "AWS_CA_BUNDLE": str(known[trusts].certificate)}
        done = run("doctor", "s3://backups/shop", "--cluster", "--json", more=driver | cluster.environment)
    said = [each["remedy"] for each in done.value["findings"] if each["what"].endswith("archive")]
    assert len(said) == 2  # of this machine, and of the worker
    assert all(told in each for each in said), said


@pytest.mark.parametrize(
    ("worker", "told"),
    [
        ("exec {python} -S", f"Holdfast is missing there and {holdfast.__version__} here"),
        ("PYTHONPATH={folder}:$PYTHONPATH exec {python}", f"Holdfast 0.0.9 there and {holdfast.__version__} here"),
    ],
    ids=["none", "another release"],
)
def test_a_worker_of_another_release_is_told_with_both(
    worker: str, told: str, store: ObjectStore, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text('import holdfast\nholdfast.__version__ = "0.0.9"\n')
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n{worker.format(python=sys.executable, folder=tmp_path)} "$@"\n')
    python.chmod(0o755)
    with running_cluster(workers=1, python=str(python)) as cluster:
        failed = remedies(run("doctor", store.url, "--cluster", "--json", more=cluster.environment))
    assert failed.keys() == {"release"}
    assert failed["release"].startswith(told)


def test_a_python_that_workers_do_not_have_is_told(store: ObjectStore) -> None:
    with running_cluster(workers=1, python="/nowhere/python") as cluster:
        failed = remedies(run("doctor", store.url, "--cluster", "--json", more=cluster.environment))
    assert failed.keys() == {"cluster"}
    assert "no Python that starts as /nowhere/python: say by spark.pyspark.python" in failed["cluster"]
