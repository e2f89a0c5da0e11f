"""What can be set about S3, and that every request keeps to it."""

from __future__ import annotations

import contextlib
import copy
import pickle
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.common.errors import UsageError
from holdfast.storage import StoreDenied, StoreError, StoreOutcomeUnknown, open_place
from holdfast.storage.contract import parts
from holdfast.storage.s3.settings import S3Settings
from holdfast.storage.s3.store import S3Store
from tests.support.stores.fake_s3 import BUCKET, FakeS3, Fault, Received, running_fake_s3

pytestmark = pytest.mark.slow

NAMES = ("HOLDFAST_S3_ADDRESSING", "HOLDFAST_S3_SSE", "HOLDFAST_S3_SSE_KMS_KEY_ID", "HOLDFAST_LISTING_ORDERED")


@pytest.fixture(scope="module")
def running() -> Iterator[FakeS3]:
    with running_fake_s3() as server:
        yield server


@pytest.fixture
def server(running: FakeS3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeS3:
    running.reset()
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    for name in (*NAMES, "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", running.endpoint)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(parts, "PART_BYTES", 10)
    return running


def write_bulk(store: S3Store, body: bytes) -> None:
    with store.open_write("bulk") as file:
        file.write(body)


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


def test_encrypted_bulk_data_is_what_was_written(server: FakeS3) -> None:
    store = S3Store(BUCKET, settings=S3Settings(sse="AES256"))
    with store.open_write("a") as file:
        for piece in (b"", b"123456789", b"0", memoryview(b"abcdefghijklmnopqrstuvwxyz"), b"!"):
            file.write(piece)
    assert store.get("a") == b"1234567890abcdefghijklmnopqrstuvwxyz!"
    assert len([each for each in server.received if "partNumber" in each.query]) == 4


@pytest.mark.parametrize("body", [b"small", b"large" * 10])
def test_nothing_stays_of_an_encrypted_write_that_failed(server: FakeS3, body: bytes) -> None:
    store = S3Store(BUCKET, settings=S3Settings(sse="AES256"))

    def write() -> None:
        with store.open_write("a") as file:
            file.write(body)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert (server.objects, server.parts) == ({}, {})


@pytest.mark.parametrize("body", [b"", b"small", b"large" * 10])
@pytest.mark.parametrize(
    ("fault", "error"),
    [(Fault(500, "InternalError", lands=True), StoreOutcomeUnknown), (Fault(403, "AccessDenied"), StoreDenied)],
)
def test_an_encrypted_write_whose_end_failed_is_taken_back(
    server: FakeS3, body: bytes, fault: Fault, error: type[StoreError]
) -> None:
    store = S3Store(BUCKET, settings=S3Settings(sse="AES256"))

    def judge(number: int, request: Received) -> Fault | None:
        ends = "uploadId" in request.query and request.method == "POST" if body else request.method == "PUT"
        return fault if ends else None

    server.judge = judge
    with pytest.raises(error, match="bulk"):
        write_bulk(store, body)
    assert (server.objects, server.parts) == ({}, {})


def test_pyarrows_filesystem_is_refused_rather_than_written_to_without_encryption(server: FakeS3) -> None:
    with pytest.raises(UsageError, match="HOLDFAST_S3_SSE"):
        S3Store(BUCKET, settings=S3Settings(sse="AES256")).filesystem()


def test_settings_come_from_the_environment_and_travel_with_a_store(
    server: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in zip(NAMES, ("virtual", "aws:kms", "alias/backups", "yes"), strict=True):
        monkeypatch.setenv(name, value)
    store = open_place(f"s3://{BUCKET}/shop")
    for name in NAMES:
        monkeypatch.delenv(name)
    twins: list[Any] = [pickle.loads(pickle.dumps(store)), copy.copy(store)]  # noqa: S301 - our own bytes
    for twin in twins:
        assert twin._settings == S3Settings("virtual", "aws:kms", "alias/backups", True)
        assert (twin.url, twin.listing_is_ordered) == (store.url, True)


@pytest.mark.parametrize("ordered", [True, False])
def test_an_order_of_listings_that_was_told_survives_pickling(server: FakeS3, ordered: bool) -> None:
    store = S3Store(BUCKET, listing_is_ordered=ordered)
    assert pickle.loads(pickle.dumps(store)).listing_is_ordered is ordered  # noqa: S301 - our own bytes


@pytest.mark.parametrize(("value", "ordered"), [("yes", True), ("no", False), ("", False)])
def test_the_environment_says_whether_listings_are_ordered(
    server: FakeS3, monkeypatch: pytest.MonkeyPatch, value: str, ordered: bool
) -> None:
    monkeypatch.setenv("HOLDFAST_LISTING_ORDERED", value)
    assert S3Store(BUCKET).listing_is_ordered is ordered


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
        open_place(f"s3://{BUCKET}/shop")
    assert said in str(refused.value)
    assert next(iter(variables)) in str(refused.value)
    assert server.received == []


@contextlib.contextmanager
def names_of_this_host() -> Iterator[None]:
    """Resolve whatever ends in .localhost, as many systems do, though not all."""
    resolve = socket.getaddrinfo
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            socket,
            "getaddrinfo",
            lambda host, *more: resolve("127.0.0.1" if str(host).endswith(".localhost") else host, *more),
        )
        yield


@pytest.mark.parametrize(
    ("variable", "written", "by_host"),
    [
        ("", "", False),
        ("path", "", False),
        ("auto", "", False),
        ("virtual", "", True),
        ("", "virtual", True),
        ("path", "virtual", False),
    ],
)
def test_a_bucket_is_named_by_path_or_by_host_as_it_is_set(
    server: FakeS3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, written: str, by_host: bool
) -> None:
    (tmp_path / "config").write_text(f"[default]\ns3 =\n  addressing_style = {written}\n" if written else "")
    monkeypatch.setenv("HOLDFAST_S3_ADDRESSING", variable)
    port = server.endpoint.rpartition(":")[2]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://localhost:{port}")
    store = S3Store(BUCKET)
    with names_of_this_host():
        store.put("a", b"x")
        with store.open_read("a") as file:  # through pyarrow
            assert file.read() == b"x"
    expected = (f"{BUCKET}.localhost:{port}", "/") if by_host else (f"localhost:{port}", f"/{BUCKET}/")
    assert len(server.received) >= 2
    for request in server.received:
        assert (request.host, request.path[: len(expected[1])]) == expected
    assert {request.method for request in server.received} == {"PUT", "HEAD", "GET"}


def test_an_addressing_style_of_the_config_file_that_is_none_is_refused(server: FakeS3, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[default]\ns3 =\n  addressing_style = host\n")
    with pytest.raises(UsageError, match="auto, path, virtual"):
        S3Store(BUCKET)


def test_an_endpoint_of_the_config_file_counts_for_everything(
    server: FakeS3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    (tmp_path / "config").write_text(f"[default]\nendpoint_url = {server.endpoint}\n")
    store = S3Store(BUCKET)
    assert not store.listing_is_ordered
    store.put("a", b"x")
    with store.open_read("a") as file:
        assert file.read() == b"x"


def test_what_botocore_knows_of_s3_is_read_once_for_all_stores(server: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(S3Store(BUCKET).list("").objects) == []
    monkeypatch.setattr("botocore.loaders.JSONFileLoader.load_file", lambda _, path: pytest.fail(f"{path} is read"))
    assert list(S3Store(BUCKET).list("").objects) == []


@pytest.mark.parametrize(
    ("addressing", "start"), [("", "https://bucket.s3."), ("path", "https://s3.eu-north-1.amazonaws.com/bucket/")]
)
def test_amazons_own_address_can_be_used_by_path(
    server: FakeS3, monkeypatch: pytest.MonkeyPatch, addressing: str, start: str
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    store = S3Store(BUCKET, settings=S3Settings(addressing))
    url = store._reader.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "a"})
    assert url.startswith(start)
    assert store.listing_is_ordered
