"""Objects deleted for good from buckets, also from those that keep versions or lock objects."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

from bench.support.versitygw import running_versitygw
from holdfast.storage import ObjectRetained, StoreDenied, StoreError, StoreOutcomeUnknown, StoreUnavailable
from holdfast.storage.contract.patience import Patience
from holdfast.storage.s3.store import S3Store
from tests.support.stores.fake_s3 import BUCKET, CUT, FakeS3, Fault, Received, running_fake_s3
from tests.support.stores.moto_server import running_moto

NewBucket = Callable[..., tuple[S3Store, Any]]


@contextmanager
def running_versioned() -> Iterator[dict[str, str]]:
    with running_versitygw(versions=True) as server:
        yield server.environment


@pytest.fixture(scope="module", params=[pytest.param(running_moto, marks=pytest.mark.exhaustive), running_versioned])
def new_bucket(request: pytest.FixtureRequest) -> Iterator[NewBucket]:
    """Makes a bucket on a server; returns a store in it, and a client beside the store."""
    with request.param() as variables, pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)

        def make(name: str, *, versions: str = "", locks: bool = False) -> tuple[S3Store, Any]:
            client: Any = boto3.Session().client("s3")
            client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=locks)
            if versions:
                client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": versions})
            return S3Store(name, "some/archive"), client

        yield make


def versions_of(client: Any, bucket: str) -> list[str]:
    answer = client.list_object_versions(Bucket=bucket)
    found = [*answer.get("Versions", []), *answer.get("DeleteMarkers", [])]
    return sorted(each["Key"].removeprefix("some/archive/") for each in found)


@pytest.mark.service
def test_all_versions_go_and_those_of_other_objects_stay(new_bucket: NewBucket) -> None:
    store, client = new_bucket("versions", versions="Enabled")
    for body in (b"1", b"2"):
        for key in ("data/a/1", "data/a/2", "data/b/1"):
            store.put(key, body)
    store.put("data/a/11", b"1")
    store.delete("data/b/1")  # leaves a marker, and what is under it
    assert store.delete_many(["data/a/1", "data/b/1", "data/none/1"]) == {}
    assert versions_of(client, "versions") == ["data/a/11", "data/a/2", "data/a/2"]


@pytest.mark.service
def test_versions_from_before_versioning_was_suspended_go_too(new_bucket: NewBucket) -> None:
    store, client = new_bucket("suspended", versions="Enabled")
    store.put("data/a/1", b"1")
    client.put_bucket_versioning(Bucket="suspended", VersioningConfiguration={"Status": "Suspended"})
    store.put("data/a/1", b"2")
    assert store.delete_many(["data/a/1"]) == {}
    assert versions_of(client, "suspended") == []


@pytest.mark.service
def test_what_is_locked_stays_and_its_end_is_told(new_bucket: NewBucket) -> None:
    store, client = new_bucket("locked", locks=True)
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    for key in ("retained", "held", "free"):
        store.put(f"data/a/{key}", b"1")
    client.put_object_retention(
        Bucket="locked",
        Key="some/archive/data/a/retained",
        Retention={"Mode": "COMPLIANCE", "RetainUntilDate": until},
    )
    client.put_object_legal_hold(Bucket="locked", Key="some/archive/data/a/held", LegalHold={"Status": "ON"})
    errors = store.delete_many(["data/a/retained", "data/a/held", "data/a/free"])
    assert set(errors) == {"data/a/retained", "data/a/held"}
    retained, held = errors["data/a/retained"], errors["data/a/held"]
    assert isinstance(retained, ObjectRetained)
    assert isinstance(held, ObjectRetained)
    assert retained.until is not None
    assert abs(retained.until - until) < timedelta(seconds=2)
    assert f"until {until:%Y-%m-%d %H:%M} UTC" in str(retained)
    assert (held.until, "legal hold" in str(held)) == (None, True)
    assert versions_of(client, "locked") == ["data/a/held", "data/a/retained"]
    client.put_object_legal_hold(Bucket="locked", Key="some/archive/data/a/held", LegalHold={"Status": "OFF"})
    assert set(store.delete_many(["data/a/retained", "data/a/held"])) == {"data/a/retained"}


@pytest.mark.service
def test_what_is_locked_by_its_bucket_stays_though_the_server_does_not_say_until_when(new_bucket: NewBucket) -> None:
    store, client = new_bucket("default", locks=True)
    rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}
    client.put_object_lock_configuration(
        Bucket="default", ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    store.put("data/a/1", b"1")
    (refused,) = store.delete_many(["data/a/1"]).values()
    assert isinstance(refused, ObjectRetained)
    assert "object lock" in str(refused)
    assert versions_of(client, "default") == ["data/a/1"]


@pytest.fixture(scope="module")
def running() -> Iterator[FakeS3]:
    with running_fake_s3() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield server


@pytest.fixture
def fake(running: FakeS3) -> FakeS3:
    running.reset()
    return running


@pytest.fixture
def store(running: FakeS3) -> S3Store:
    return S3Store(BUCKET, listing_is_ordered=True, patience=Patience(5.0, 30.0, attempts=1))


def test_a_thousand_go_with_one_request_that_carries_a_checksum_all_servers_know(
    fake: FakeS3, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies: list[bytes] = []
    perform = fake.perform

    def record(request: Received, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        bodies.append(body)
        return perform(request, body)

    monkeypatch.setattr(fake, "perform", record)
    keys = [f"data/{number}" for number in range(2001)]
    fake.objects.update((key, (b"", datetime.now(UTC))) for key in (*keys, "data/kept"))
    assert store.delete_many(keys) == {}
    assert set(fake.objects) == {"data/kept"}
    sent = [(each, body) for each, body in zip(fake.received, bodies, strict=True) if "delete" in each.query]
    assert len(sent) == 3
    for request, body in sent:
        digest = hashlib.md5(body, usedforsecurity=False).digest()
        assert request.headers["content-md5"] == base64.b64encode(digest).decode()


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(403, "AccessDenied"), StoreDenied),
        (Fault(404, "NoSuchBucket"), StoreError),
        (Fault(500, "InternalError"), StoreOutcomeUnknown),
        (Fault(503, "SlowDown"), StoreUnavailable),
        (CUT, StoreOutcomeUnknown),
    ],
)
def test_a_request_that_fails_is_told_of_each_object_in_it(
    fake: FakeS3, store: S3Store, fault: Fault, expected: type[StoreError]
) -> None:
    fake.judge = lambda number, request: fault if "delete" in request.query else None
    errors = store.delete_many(["data/1", "data/2"])
    assert set(errors) == {"data/1", "data/2"}
    assert all(isinstance(error, expected) for error in errors.values())


@pytest.mark.parametrize("code", ["AccessDenied", "InternalError", "SlowDown", "NoSuchKey"])
def test_objects_that_were_not_deleted_are_told_from_those_that_were(
    fake: FakeS3, store: S3Store, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    answer = f"<DeleteResult><Error><Key>data/2</Key><Code>{code}</Code><Message>no</Message></Error></DeleteResult>"
    perform = fake.perform

    def refuse(request: Received, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        return (200, answer.encode(), {}) if "delete" in request.query else perform(request, body)

    monkeypatch.setattr(fake, "perform", refuse)
    errors = store.delete_many(["data/1", "data/2"])
    means = {"AccessDenied": StoreDenied, "InternalError": StoreOutcomeUnknown, "SlowDown": StoreUnavailable}
    assert {key: type(error) for key, error in errors.items()} == ({"data/2": means[code]} if code in means else {})


def test_a_server_without_deletion_of_many_is_asked_for_each(fake: FakeS3, store: S3Store) -> None:
    fake.objects.update((f"data/{number}", (b"", datetime.now(UTC))) for number in range(3))
    fake.judge = lambda number, request: Fault(501, "NotImplemented") if "delete" in request.query else None
    assert store.delete_many(["data/0", "data/1", "data/none"]) == {}
    assert set(fake.objects) == {"data/2"}


def test_a_server_that_knows_no_versions_has_none(fake: FakeS3, store: S3Store) -> None:
    fake.objects["data/0"] = (b"", datetime.now(UTC))
    fake.judge = lambda number, request: Fault(501, "NotImplemented") if "versioning" in request.query else None
    assert store.delete_many(["data/0"]) == {}
    assert fake.objects == {}


def test_nothing_is_deleted_where_it_cannot_be_told_whether_versions_would_stay(fake: FakeS3, store: S3Store) -> None:
    fake.objects["data/0"] = (b"", datetime.now(UTC))
    fake.judge = lambda number, request: Fault(403, "AccessDenied") if "versioning" in request.query else None
    with pytest.raises(StoreDenied, match="s3:GetBucketVersioning"):
        store.delete_many(["data/0"])
    assert set(fake.objects) == {"data/0"}
