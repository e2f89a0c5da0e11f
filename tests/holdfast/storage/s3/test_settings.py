"""What can be set about S3, and that every request keeps to it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.common.errors import UsageError
from holdfast.storage import open_url
from holdfast.storage.s3.settings import S3Settings
from holdfast.storage.s3.store import S3Store
from tests.support.stores.fake_s3 import BUCKET, FakeS3, Received
from tests.support.stores.s3_requests import NAMES, write_bulk

pytestmark = pytest.mark.slow


@pytest.fixture
def server(plain_server: FakeS3) -> FakeS3:
    return plain_server


WRITES: list[Callable[[S3Store], object]] = [
    lambda store: store.put("a", b"x"),
    lambda store: store.touch("a", b"x"),
    lambda store: store.create("a", b"x"),
    lambda store: store.gated(lambda: None).create("a", b"x"),
    lambda store: store.replace("a", b"x", "etag"),
    lambda store: write_bulk(store, b""),
    lambda store: write_bulk(store, b"small"),
    lambda store: write_bulk(store, b"large" * 10),
]


def made(server: FakeS3) -> list[Received]:
    """The requests that make an object or begin one."""
    return [
        each
        for each in server.received
        if (each.method == "PUT" and "partNumber" not in each.query)
        or (each.method == "POST" and "uploads" in each.query)
    ]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        (S3Settings(sse="AES256"), ("AES256", None)),
        (S3Settings(sse="aws:kms"), ("aws:kms", None)),
        (S3Settings(sse="aws:kms", sse_kms_key_id="alias/backups"), ("aws:kms", "alias/backups")),
    ],
)
def test_every_object_is_written_with_the_encryption_that_is_set(
    server: FakeS3, write: Callable[[S3Store], object], settings: S3Settings, sent: tuple[str, str | None]
) -> None:
    write(S3Store(BUCKET, "x", settings=settings))
    (request,) = made(server)
    header = "x-amz-server-side-encryption"
    assert (request.headers.get(header), request.headers.get(f"{header}-aws-kms-key-id")) == sent
    assert not [each for each in server.received if each not in made(server) and header in each.headers]


@pytest.mark.parametrize("write", WRITES[:5])
def test_without_a_setting_encryption_is_left_to_the_bucket(server: FakeS3, write: Callable[[S3Store], object]) -> None:
    write(S3Store(BUCKET))
    assert not any("encryption" in name for each in server.received for name in each.headers)


def test_pyarrows_filesystem_is_refused_rather_than_written_to_without_encryption(server: FakeS3) -> None:
    with pytest.raises(UsageError, match="HOLDFAST_S3_SSE"):
        S3Store(BUCKET, settings=S3Settings(sse="AES256")).filesystem()


def test_settings_come_from_the_environment_and_travel_with_a_store(
    server: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in zip(NAMES, ("virtual", "aws:kms", "alias/backups", "yes"), strict=True):
        monkeypatch.setenv(name, value)
    store = open_url(f"s3://{BUCKET}/shop")
    for name in NAMES:
        monkeypatch.delenv(name)
    twins: list[Any] = [pickle.loads(pickle.dumps(store)), copy.copy(store)]  # noqa: S301 - our own bytes
    for twin in twins:
        assert twin._settings == S3Settings("virtual", "aws:kms", "alias/backups", True)
        assert (twin.url, twin.listing_is_ordered) == (store.url, True)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"HOLDFAST_S3_ADDRESSING": "host"}, "auto, path, virtual"),
        ({"HOLDFAST_S3_SSE": "aes256"}, "AES256, aws:kms, aws:kms:dsse"),
        ({"HOLDFAST_S3_SSE_KMS_KEY_ID": "alias/x"}, "HOLDFAST_S3_SSE=aws:kms"),
        ({"HOLDFAST_S3_SSE_KMS_KEY_ID": "alias/x", "HOLDFAST_S3_SSE": "AES256"}, "HOLDFAST_S3_SSE=aws:kms"),
        ({"HOLDFAST_LISTING_ORDERED": "True"}, "yes, no"),
        ({"AWS_PROFILE": "nobody"}, "AWS_PROFILE"),
    ],
)
def test_a_setting_that_is_none_is_refused_and_says_what_is_allowed(
    server: FakeS3,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    said: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as refused:
        open_url(f"s3://{BUCKET}/shop")
    assert said in str(refused.value)
    assert next(iter(variables)) in str(refused.value)
    assert server.received == []
