"""What `holdfast doctor --cluster` says of workers on which something is amiss."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.support.spark_cluster import SparkCluster, running_cluster
from bench.support.versitygw import S3Server, running_versitygw
from holdfast.common.remote_environment import IDENTITY_VARIABLE
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


def test_a_certificate_that_is_not_good_is_told_of_each_worker(cluster: SparkCluster, tmp_path: Path) -> None:
    own, other = (Authority.made(tmp_path, name) for name in ("own", "other"))
    with running_versitygw(certificate=own.server(tmp_path)) as server:
        server.make_bucket("backups")
        driver = {**server.environment, "AWS_CA_BUNDLE": str(other.certificate)}
        done = run("doctor", "s3://backups/shop", "--cluster", "--json", more=driver | cluster.environment)
    said = [each["remedy"] for each in done.value["findings"] if each["what"].endswith("archive")]
    assert len(said) == 2  # of this machine, and of the worker
    assert all("certificates in AWS_CA_BUNDLE" in each for each in said), said
