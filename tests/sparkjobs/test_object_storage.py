"""The same jobs on object storage: a backup and a restore through a real S3 server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from holdfast.sources.postgresql.address import Address
from tests.support.command import run
from tests.support.versitygw import SECRET_KEY, S3Server, running_versitygw

pytestmark = pytest.mark.service

URL = "s3://backups/shop"


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_versitygw() as server:
        server.make_bucket("backups")
        yield server


def test_a_backup_on_s3_comes_back_and_keeps_no_secret(s3: S3Server, create_database: Callable[..., Address]) -> None:
    source = create_database(
        "create table orders as select i as id, md5(i::text) as name from generate_series(1, 999) i"
    )
    target = create_database()
    commands = {
        "init": ("init", URL),
        "backup": ("backup", URL, "--source", source.url),
        "verify": ("verify", URL, "--deep"),
        "restore": ("restore", URL, "--to", target.url),
    }
    done = {
        name: run(*arguments, "--json", address=source, more=s3.environment) for name, arguments in commands.items()
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
    missing = run("status", "s3://nowhere-at-all/shop", "--json", more=s3.environment)
    assert (missing.code, "the bucket does not exist" in missing.value["error"]) == (1, True)
    denied = run("status", URL, "--json", more={**s3.environment, "AWS_SECRET_ACCESS_KEY": "wrong-wrong"})
    assert (denied.code, "Check the AWS_* credentials" in denied.value["error"]) == (1, True)
    assert "wrong-wrong" not in denied.out + denied.err
