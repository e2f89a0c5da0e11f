"""Each policy of docs/examples/s3-policies lets its user do the work, and the server refuses the rest."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import StoreDenied, open_url
from tests.support.jobs.command import Finished
from tests.support.jobs.command_here import run_here
from tests.support.stores.s3_users import S3Users, running_s3_with_users

POLICIES = Path(__file__).parents[3] / "docs" / "examples" / "s3-policies"
URL = "s3://backups/shop"
USERS = ("backup", "restore", "read", "maintenance")

Run = Callable[..., Finished]


def policy(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((POLICIES / f"{name}.json").read_text())
    return found


class Archive:
    """An archive with two backups of one source, and a user for each policy."""

    def __init__(self, users: S3Users, source: Address) -> None:
        self.users = users
        self.source = source
        self.environments = {name: users.user(name, policy(name)) for name in USERS}
        users.server.make_bucket("backups")
        assert self.run("administrator", "init", URL).code == 0

    def run(self, user: str, *arguments: str) -> Finished:
        more = self.environments.get(user, self.users.server.environment)
        return run_here(*arguments, address=self.source, more=more)

    def denied(self, user: str, *arguments: str) -> str:
        """Return what is said where the server refuses: one sentence, exit code 1."""
        done = self.run(user, *arguments, "--json")
        assert done.code == 1, done.out + done.err
        said: str = done.value["error"]
        assert "Check the AWS_* credentials and what they may do in this bucket" in said
        return said

    def raw(self, user: str, monkeypatch: pytest.MonkeyPatch) -> Any:
        for name, value in self.environments[user].items():
            monkeypatch.setenv(name, value)
        return open_url(URL)

    def keys(self, prefix: str) -> list[str]:
        root = self.users.server.folder / "backups" / "shop"
        return sorted(str(each.relative_to(root)) for each in (root / prefix).rglob("*") if each.is_file())


@pytest.fixture(scope="module")
def users() -> Iterator[S3Users]:
    with running_s3_with_users() as found:
        yield found


@pytest.fixture(scope="module")
def archive(users: S3Users, create_database: Callable[..., Address]) -> Archive:
    source = create_database(
        "create table orders as select i as id, md5(i::text) as name from generate_series(1, 99) i"
    )
    made = Archive(users, source)
    for _ in range(2):
        done = made.run("backup", "backup", URL, "--source", source.url, "--kind", "full")
        assert done.code == 0, done.out + done.err
    return made


def rows(archive: Archive) -> str:
    return next(key for key in archive.keys("data") if "/snapshot/" in key)


@pytest.mark.service
def test_who_backs_up_can_do_no_more(
    archive: Archive, create_database: Callable[..., Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The fixture's backups were made by this user.
    for command in (("query", URL, "select * from public.orders"), ("restore", URL, "--to", create_database().url)):
        assert "Could not read 'data/" in archive.denied("backup", *command)
    store = archive.raw("backup", monkeypatch)
    for key in (rows(archive), *archive.keys("commits"), *archive.keys("checkpoints"), "archive.json"):
        with pytest.raises(StoreDenied):
            store.delete(key)
    with pytest.raises(StoreDenied):
        store.get(rows(archive))
    with pytest.raises(StoreDenied):
        store.put("archive.json", b"{}")


@pytest.mark.service
def test_who_restores_can_add_and_delete_nothing_but_locks(
    archive: Archive, create_database: Callable[..., Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = create_database()
    done = archive.run("restore", "restore", URL, "--to", target.url, "--json")
    assert (done.code, done.value["equal"]) == (0, True), done.out + done.err
    with connect(target) as session:
        assert session.execute(b"select count(*) from public.orders").fetchone() == (99,)
    archive.denied("restore", "hold", "add", URL, "--at", "latest", "--reason", "x")
    store = archive.raw("restore", monkeypatch)
    for key in (rows(archive), archive.keys("commits")[0], "archive.json"):
        with pytest.raises(StoreDenied):
            store.put(key, b"")
        with pytest.raises(StoreDenied):
            store.delete(key)


@pytest.mark.service
def test_who_reads_writes_nothing_at_all(
    archive: Archive, create_database: Callable[..., Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = archive.keys("")
    target = create_database()
    for command in (
        ("query", URL, "select count(*) from public.orders"),
        ("verify", URL, "--deep"),
        ("restore", URL, "--to", target.url),
    ):
        assert "s3:PutObject" in archive.denied("read", *command)
        done = archive.run("read", *command, "--no-lock")
        assert done.code == 0, done.out + done.err
    assert archive.keys("") == before
    store = archive.raw("read", monkeypatch)
    for key in ("locks/format/x", rows(archive)):
        with pytest.raises(StoreDenied):
            store.put(key, b"")
        with pytest.raises(StoreDenied):
            store.delete(key)


@pytest.mark.service
def test_who_maintains_deletes_what_a_vacuum_may_and_no_commit(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in (
        ("compact", URL),
        ("truncate", URL, "--keep", "last=1"),
        ("hold", "add", URL, "--at", "latest", "--reason", "the audit"),
        ("verify", URL, "--deep"),
        ("vacuum", URL, "--grace", "0s"),
    ):
        done = archive.run("maintenance", *command)
        assert done.code == 0, done.out + done.err
    store = archive.raw("maintenance", monkeypatch)
    for key in (archive.keys("commits")[0], "archive.json"):
        with pytest.raises(StoreDenied):
            store.delete(key)


@pytest.mark.service
def test_the_server_here_does_not_know_the_condition_of_write_once_buckets(users: S3Users) -> None:
    """Where this fails, the server has learnt it: run the policy against it instead of `only_conditional_writes`."""
    users.server.make_bucket("once")
    server = users.server.environment
    client = boto3.client("s3", endpoint_url=server["AWS_ENDPOINT_URL"], region_name=server["AWS_REGION"],
                          aws_access_key_id=server["AWS_ACCESS_KEY_ID"],
                          aws_secret_access_key=server["AWS_SECRET_ACCESS_KEY"])  # fmt: skip
    with pytest.raises(ClientError, match="condition"):
        client.put_bucket_policy(
            Bucket="once", Policy=json.dumps(policy("bucket-write-once")).replace("backups/", "once/")
        )


def test_the_policy_of_write_once_buckets_is_about_all_that_is_written_once_and_no_lock() -> None:
    (only,) = policy("bucket-write-once")["Statement"]
    covered = [each.removeprefix("arn:aws:s3:::backups/shop/") for each in only["Resource"]]
    written = {
        each.removeprefix("arn:aws:s3:::backups/shop/")
        for name in USERS
        for statement in policy(name)["Statement"]
        if "s3:PutObject" in statement["Action"]
        for each in statement["Resource"]
    }
    assert {each for each in written if not any(fnmatch.fnmatch(each, one) for one in covered)} == {"locks/*"}
    assert not any(fnmatch.fnmatch("locks/format/READ.1", one) for one in covered)
