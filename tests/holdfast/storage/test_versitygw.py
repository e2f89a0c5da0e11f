"""The S3 server that tests start."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.support.versitygw import S3Server, running_versitygw
from holdfast.storage.contract.parts import PART_BYTES
from holdfast.storage.s3.settings import S3Settings
from holdfast.storage.s3.store import S3Store
from locking.store import StoreError
from tests.support.servers.certificates import Authority


@pytest.mark.service
def test_the_server_takes_encrypted_writes_of_any_size(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    s3_server.make_bucket("encrypted")
    store = S3Store("encrypted", settings=S3Settings(sse="AES256"))
    body = bytes(range(256)) * (PART_BYTES // 256) + b"more"
    with store.open_write("large") as file:
        file.write(body)
    store.create("small", b"1")
    with store.open_read("large") as file:
        assert file.read() == body
    assert store.get("small") == b"1"


@pytest.mark.service
@pytest.mark.parametrize(
    ("trusts", "made_for", "days", "told"),
    [
        ("own", "127.0.0.1", 1, None),
        ("other", "127.0.0.1", 1, r"certificates in AWS_CA_BUNDLE\.$"),
        pytest.param("own", "127.0.0.1", -1, "has expired: have it renewed", marks=pytest.mark.exhaustive),
        ("own", "s3.example", 1, "for another name: write the name that it is for into AWS_ENDPOINT_URL"),
    ],
    ids=["good", "by nobody known", "expired", "of another name"],
)
def test_a_server_is_sent_nothing_where_its_certificate_is_not_good(
    trusts: str, made_for: str, days: int, told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {name: Authority.made(tmp_path, name) for name in ("own", "other")}
    with running_versitygw(certificate=known["own"].server(tmp_path, host=made_for, days=days)) as server:
        server.make_bucket("backups")
        for name, value in {**server.environment, "AWS_CA_BUNDLE": str(known[trusts].certificate)}.items():
            monkeypatch.setenv(name, value)
        store = S3Store("backups")
        if told is None:
            store.put("a", b"x")
            with store.open_read("a") as file:
                assert file.read() == b"x"
        else:
            with pytest.raises(StoreError, match=told.replace(r"\.$", "")):  # by pyarrow, which has a TLS of its own
                store.open_read("a")
            with pytest.raises(StoreError, match=told) as caught:
                store.put("a", b"x")
            assert type(caught.value) is StoreError  # of a write that may have been made, it would be another
            assert str(caught.value).startswith(f"Could not write 'a': {server.endpoint}/backups")
        assert (server.folder / "backups" / "a").exists() is (told is None)
