"""Access to an S3 server: its address, how it names buckets, and how often it is asked."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.common.errors import UsageError
from holdfast.storage import StoreUnavailable
from holdfast.storage.s3.settings import S3Settings
from holdfast.storage.s3.store import S3Store
from tests.support.stores.fake_s3 import BUCKET, FakeS3, Fault

pytestmark = pytest.mark.slow


@pytest.fixture
def server(plain_server: FakeS3) -> FakeS3:
    return plain_server


def test_a_read_is_tried_as_often_as_told_and_no_more(server: FakeS3) -> None:
    store = S3Store(BUCKET, "prefix")  # the SDK limits how often one client tries again over time
    server.fail(Fault(500, "InternalError"))
    with pytest.raises(StoreUnavailable):
        store.get("a")
    assert len(server.received) == 4


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


def test_where_credentials_come_from_is_not_told_with_each_client(
    server: FakeS3, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert S3Store(BUCKET, "prefix").list("").objects == ()
    assert [record.getMessage() for record in caplog.records if "credentials" in record.getMessage()] == []
