"""The same jobs on object storage: backups and restores through a real S3 server and the clouds' emulators."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.support.versitygw import SECRET_KEY, S3Server
from holdfast.operations.executor_choice import JOB_VARIABLE
from holdfast.postgresql.connection.address import Address
from tests.support.jobs.command import ON_SPARK, run
from tests.support.jobs.command_here import run_here
from tests.support.stores.azurite import ACCOUNT_KEY, running_azurite
from tests.support.stores.fake_gcs import running_fake_gcs

pytestmark = pytest.mark.service

URL = "s3://backups/shop"


def test_a_backup_on_s3_comes_back_and_keeps_no_secret(s3: S3Server, create_database: Callable[..., Address]) -> None:
    source = create_database(
        "create table orders as select i as id, md5(i::text) as name from generate_series(1, 999) i"
    )
    target = create_database()
    assert run_here("init", URL, more=s3.environment).code == 0
    commands = {
        "backup": ("backup", URL, "--source", source.url),
        "verify": ("verify", URL, "--deep"),
        "restore": ("restore", URL, "--to", target.url),
    }
    # The first is a process of its own, as people start it, and so is the job by Spark. A verification reads files as
    # a restore does, and workers that have a key as well are test_encrypted.py's.
    by_spark = {**s3.environment, **ON_SPARK}
    done = {
        "backup": run(*commands["backup"], "--json", address=source, more=s3.environment),
        "verify": run_here(*commands["verify"], "--json", address=source, more=s3.environment),
        "restore": run_here(*commands["restore"], "--json", address=source, more=by_spark),
    }

    assert {name: each.code for name, each in done.items()} == dict.fromkeys(commands, 0)
    assert done["backup"].value["rows"] == done["restore"].value["rows"] == 999
    assert (done["verify"].value["damage"], done["restore"].value["equal"]) == ([], True)
    kept = [path for path in s3.folder.rglob("*") if path.is_file()]
    for secret in (SECRET_KEY, source.password):
        assert secret
        assert not any(secret in each.out + each.err for each in done.values())
        assert not any(secret.encode() in path.read_bytes() for path in kept)


def test_a_bucket_that_is_not_there_and_a_wrong_key_are_told_apart(s3: S3Server) -> None:
    missing = run_here("status", "s3://nowhere-at-all/shop", "--json", more=s3.environment)
    assert (missing.code, "the bucket does not exist" in missing.value["error"]) == (1, True)
    denied = run_here("status", URL, "--json", more={**s3.environment, "AWS_SECRET_ACCESS_KEY": "wrong-wrong"})
    assert (denied.code, "Check the AWS_* credentials" in denied.value["error"]) == (1, True)
    assert "wrong-wrong" not in denied.out + denied.err


@pytest.mark.parametrize("executor", ["inline", pytest.param("spark", marks=pytest.mark.exhaustive)])
def test_a_backup_in_each_cloud_comes_back(create_database: Callable[..., Address], executor: str) -> None:
    """Workers of Spark are told where a store is, and get its keys, as on S3."""
    source = create_database(
        "create table orders as select i as id, md5(i::text) as name from generate_series(1, 999) i"
    )
    clouds = ["az://backups/shop", "gs://backups/shop"]
    targets = [create_database() for _ in clouds]
    with running_azurite() as azure, running_fake_gcs() as gcs:
        azure.make_container("backups")
        gcs.make_bucket("backups")
        # One program, since each Spark takes seconds to start.
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.support.jobs.cloud_jobs",
                source.url,
                *(each.url for each in targets),
                *clouds,
            ],
            cwd=Path(__file__).resolve().parents[3],
            env={
                **os.environ,
                **azure.environment,
                **gcs.environment,
                JOB_VARIABLE: executor,
                "PGPASSWORD": source.password or "",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert told == [{"codes": [0, 0], "backed_up": 999, "restored": 999, "equal": True}] * 2
    assert ACCOUNT_KEY not in done.stdout + done.stderr
