"""What errors of connections say of whether a request was sent, and that they give no secret away."""

from __future__ import annotations

import pytest
from requests.exceptions import ConnectionError as RequestsConnectionError
from requests.exceptions import ConnectTimeout, ReadTimeout, SSLError
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import (
    ConnectTimeoutError,
    MaxRetryError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
)
from urllib3.exceptions import SSLError as UrllibSSLError

from holdfast.storage.contract.connections import address_of, in_words, never_sent

POOL = HTTPConnectionPool("store.example.com")
CONNECTION = HTTPConnection("store.example.com")
URL = "/container?sig=c2VzYW1l"


def given_up(reason: Exception) -> MaxRetryError:
    return MaxRetryError(POOL, URL, reason)


@pytest.mark.parametrize(
    ("error", "never"),
    [
        (RequestsConnectionError(given_up(NewConnectionError(CONNECTION, "refused"))), True),
        (RequestsConnectionError(given_up(ProxyError("Cannot connect to proxy.", OSError()))), True),
        (ConnectTimeout(given_up(ConnectTimeoutError(CONNECTION, "too slow"))), True),
        (NewConnectionError(CONNECTION, "refused"), True),
        (RequestsConnectionError(ProtocolError("Connection aborted.", ConnectionResetError())), False),
        (RequestsConnectionError(given_up(ProtocolError("Connection aborted.", ConnectionResetError()))), False),
        # Encryption can fail when the request is on its way, too.
        (SSLError(given_up(UrllibSSLError("EOF occurred in violation of protocol"))), False),
        (ReadTimeout(ReadTimeoutError(POOL, URL, "Read timed out.")), False),
        (RequestsConnectionError(), False),
        (None, False),
    ],
)
def test_only_what_had_no_connection_was_certainly_never_sent(error: Exception | None, never: bool) -> None:
    assert never_sent(error) is never


def test_an_error_says_what_happened_and_no_address_with_a_signature() -> None:
    assert in_words(RequestsConnectionError(given_up(NewConnectionError(CONNECTION, "refused")))) == "refused"
    assert in_words(RequestsConnectionError(f"Max retries exceeded with url: {URL}")).endswith("?sig=…")


@pytest.mark.parametrize(
    ("endpoint", "told"),
    [
        ("https://ann:hunter2@blobs.example.com:8443/ann/?sig=sesame#x", "https://blobs.example.com:8443/ann"),
        ("http://127.0.0.1:9", "http://127.0.0.1:9"),
    ],
)
def test_an_address_is_told_without_what_may_be_secret(endpoint: str, told: str) -> None:
    assert address_of(endpoint) == told
