"""Object locks on a real server: who has all rights in a bucket takes nothing away that was written once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from bench.support.versitygw import running_versitygw
from holdfast.archive import Archive
from holdfast.archive.maintenance.verify import extend_locks
from holdfast.common.errors import UsageError
from holdfast.storage import ObjectStore, SealedStore
from holdfast.storage.s3.object_lock import ObjectLock
from holdfast.storage.s3.settings import S3Settings
from holdfast.storage.s3.store import S3Store
from locking.store import StoreError


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of a server that locks objects."""
    with running_versitygw(versions=True) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield boto3.Session().client("s3")


def bucket(client: Any, name: str, *, locks: bool = True) -> None:
    client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=locks)


def locked(name: str, period: str = "30d") -> S3Store:
    return S3Store(name, "some/archive", settings=S3Settings(object_lock=period))


def until(client: Any, name: str, key: str) -> datetime | None:
    found = client.head_object(Bucket=name, Key=f"some/archive/{key}").get("ObjectLockRetainUntilDate")
    return found.astimezone(UTC) if found else None


@pytest.mark.parametrize(
    ("text", "days", "mode"),
    [("30d", 30, "COMPLIANCE"), ("compliance:1d", 1, "COMPLIANCE"), ("governance:7d", 7, "GOVERNANCE")],
)
def test_a_setting_names_a_period_and_a_mode(text: str, days: int, mode: Any) -> None:
    assert ObjectLock.parse(text) == ObjectLock(timedelta(days=days), mode)


@pytest.mark.parametrize("text", ["0d", "30", "30h", "forever", "governance:", "GOVERNANCE:30d"])
def test_what_is_no_lock_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"HOLDFAST_S3_OBJECT_LOCK is .* it may be one of: 30d, compliance:30d"):
        S3Settings(object_lock=text)
    assert ObjectLock.parse("") is None


@pytest.mark.service
def test_what_is_written_once_is_locked_and_what_has_to_go_is_not(client: Any) -> None:
    bucket(client, "written")
    store = locked("written")
    store.create("archive.json", b"1")
    store.create("commits/00000000000000000001.json", b"1")
    store.put("checkpoints/1.parquet", b"1")
    with store.open_write("data/shop/1/small") as small, store.open_write("data/shop/1/large") as large:
        small.write(b"1")
        large.write(bytes(20 << 20))  # in several parts
    store.put("locks/format/READ.1", b"1")
    store.create("runs/a/1.json", b"1")
    for key in ("archive.json", "commits/00000000000000000001.json", "checkpoints/1.parquet", "data/shop/1/small",
                "data/shop/1/large"):  # fmt: skip
        ends = until(client, "written", key)
        assert ends is not None, key
        assert timedelta(days=29) < ends - datetime.now(UTC) < timedelta(days=31), key
    assert until(client, "written", "locks/format/READ.1") is None
    assert until(client, "written", "runs/a/1.json") is None


@pytest.mark.service
def test_who_asks_for_no_lock_sets_none(client: Any) -> None:
    bucket(client, "plain")
    plain = S3Store("plain", "some/archive", settings=S3Settings())
    plain.put("data/plain", b"1")
    assert not plain.locks_objects
    assert plain.extend_locks(["data/plain"]).extended == 0
    assert until(client, "plain", "data/plain") is None


def _versions(client: Any, name: str) -> list[tuple[str, str]]:
    answer = client.list_object_versions(Bucket=name)
    return [(each["Key"], each["VersionId"]) for part in ("Versions", "DeleteMarkers") for each in answer.get(part, [])]


@pytest.mark.service
def test_whoever_has_all_rights_takes_away_nothing_for_good(client: Any) -> None:
    bucket(client, "ransom")
    store: ObjectStore = SealedStore(locked("ransom"))
    archive = Archive.create(store, name="shop")
    name, key = "ransom", "some/archive/archive.json"
    ours = dict(_versions(client, name))[key]
    with pytest.raises(ClientError, match="protected by object lock"):
        client.delete_object(Bucket=name, Key=key, VersionId=ours)
    client.put_object(Bucket=name, Key=key, Body=b"pay here")
    client.delete_object(Bucket=name, Key=key)
    with pytest.raises(UsageError, match="is not an archive"):
        Archive.open(store)
    for each, version in _versions(client, name):  # as whoever brings it back does
        if each == key and version != ours:
            client.delete_object(Bucket=name, Key=key, VersionId=version)
    assert Archive.open(store).identity == archive.identity


@pytest.mark.service
def test_locks_that_end_too_soon_are_extended_and_others_are_left(client: Any) -> None:
    bucket(client, "longer")
    archive = Archive.create(SealedStore(locked("longer", "1d")), name="shop")
    assert extend_locks(archive) == (1, 0, {})  # it was just set
    longer = Archive.open(SealedStore(locked("longer", "30d")))
    assert extend_locks(longer) == (1, 1, {})
    ends = until(client, "longer", "archive.json")
    assert ends is not None
    assert ends > datetime.now(UTC) + timedelta(days=29)
    assert extend_locks(longer) == (1, 0, {})
    assert longer.store.extend_locks(["data/gone"]) == (1, 0, {})


@pytest.mark.service
def test_a_bucket_without_locks_is_named_before_anything_depends_on_it(client: Any) -> None:
    bucket(client, "without", locks=False)
    store = locked("without")
    with pytest.raises(StoreError, match="missing ObjectLockConfiguration"):
        store.create("archive.json", b"1")
