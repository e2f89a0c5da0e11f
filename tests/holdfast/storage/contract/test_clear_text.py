"""Stores that are reached in the clear."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.storage import open_url
from holdfast.storage.url import warn_of_clear_text


@pytest.fixture(autouse=True)
def _nothing_is_told_yet() -> Iterator[None]:
    warn_of_clear_text.cache_clear()
    yield
    warn_of_clear_text.cache_clear()


@pytest.mark.parametrize(
    "endpoint", ["http://s3.example:9000", "http://192.0.2.7", "http://[2001:db8::1]:9000/account"]
)
def test_plain_http_over_a_network_is_told_once(endpoint: str, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        warn_of_clear_text(endpoint)
    (said,) = caplog.messages
    assert said.startswith(f"{endpoint} is reached over a network in the clear: an attacker on the way can change")
    assert "write https:// into its address" in said


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "https://s3.example",
        "http://localhost:9000",
        "http://devstoreaccount1.blob.localhost:10000",
        "http://127.0.0.1:9000",
        "http://[::1]:9000",
    ],
)
def test_tls_and_this_machine_are_not_spoken_of(endpoint: str, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_clear_text(endpoint)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("url", "variables"),
    [
        ("s3://bucket/x", {"AWS_ENDPOINT_URL": "http://store.example"}),
        (
            "az://container/x",
            {
                "AZURE_STORAGE_ACCOUNT": "a",
                "AZURE_STORAGE_KEY": "c2VjcmV0",
                "AZURE_STORAGE_SERVICE_ENDPOINT": "http://store.example",
            },
        ),
        ("gs://bucket/x", {"STORAGE_EMULATOR_HOST": "http://store.example"}),
    ],
)
def test_each_kind_of_store_is_looked_at_when_it_is_opened(
    url: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for _ in range(2):
        open_url(url)
    assert [each.partition(" is ")[0] for each in caplog.messages] == ["http://store.example"]
