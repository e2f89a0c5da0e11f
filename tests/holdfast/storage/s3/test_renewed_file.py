"""Files whose credentials end while they are read."""

from __future__ import annotations

from itertools import count

import pytest

from holdfast.storage import StoreDenied
from holdfast.storage.s3.store import S3Store
from tests.support.stores.fake_s3 import BUCKET, FakeS3, Fault
from tests.support.stores.renewed_credentials import Provider

pytestmark = pytest.mark.slow

BODY = bytes(range(256)) * 64


@pytest.fixture
def provider(plain_server: FakeS3, monkeypatch: pytest.MonkeyPatch) -> Provider:
    made = Provider()
    made.give(monkeypatch)
    plain_server.judge = made.judge
    return made


def test_a_file_is_read_on_with_the_next_credentials(plain_server: FakeS3, provider: Provider) -> None:
    store = S3Store(BUCKET)
    store.put("a", BODY)
    with store.open_read("a") as file:
        begin = file.read(1000)
        provider.pass_time()
        assert begin + file.read(500) + file.read() == BODY
        file.seek(100)
        assert (file.tell(), file.read(10)) == (100, BODY[100:110])
    assert provider.issued == 2


def test_many_files_are_read_as_one_and_each_outlives_its_credentials(plain_server: FakeS3, provider: Provider) -> None:
    store = S3Store(BUCKET, "prefix")
    store.put("data/a", BODY)
    filesystem, root = store.filesystem()
    with filesystem.open_input_file(f"{root}data/a") as file:
        begin = file.read(1000)
        provider.pass_time()
        assert begin + file.read() == BODY
    with filesystem.open_input_file(f"{root}data/a") as file:
        assert file.read() == BODY
    assert provider.issued == 2


def test_credentials_that_nobody_renews_are_said_to_have_ended(
    plain_server: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Provider()
    monkeypatch.setenv("AWS_SESSION_TOKEN", provider.issue()["token"])
    plain_server.judge = provider.judge
    store = S3Store(BUCKET)
    store.put("a", BODY)
    with store.open_read("a") as file:
        file.read(10)
        provider.pass_time()
        with pytest.raises(StoreDenied, match=r"Could not read 'a': .*ExpiredToken.* instead of AWS_SESSION_TOKEN"):
            file.read()


@pytest.mark.parametrize("fault", [Fault(503, "SlowDown"), Fault(500, "InternalError")])
def test_a_file_that_is_shorter_than_the_servers_excuse_is_asked_for_again(plain_server: FakeS3, fault: Fault) -> None:
    """pyarrow's client has no room for the answer in so short a file, and gives up at once: it did so in recoveries."""
    store = S3Store(BUCKET)
    store.put("a", b"abc")
    with store.open_read("a") as file:
        gets = count()
        plain_server.judge = lambda number, request: fault if request.method == "GET" and next(gets) < 2 else None
        assert file.read() == b"abc"
