"""What is wrong with a server's TLS, by the words of the error."""

from __future__ import annotations

import pytest

from holdfast.storage.contract.certificates import certificate_problem

_SSL = "SSL validation failed for https://s3.example/b?list-type=2"


@pytest.mark.parametrize(
    ("why", "told"),
    [
        (f"{_SSL} certificate verify failed: certificate has expired (_ssl.c:1006)", "has expired: have it renewed"),
        ("certificate verify failed: certificate is not yet valid", "check this machine's clock"),
        ("certificate verify failed: unable to get local issuer certificate", "certificates in THE_FILE"),
        ("certificate verify failed: self-signed certificate", "certificates in THE_FILE"),
        ("certificate verify failed: Hostname mismatch, certificate is not valid for 'a'", "into THE_ADDRESS"),
        ("certificate verify failed: IP address mismatch, certificate is not valid for '::1'", "into THE_ADDRESS"),
        (f"{_SSL} hostname '127.0.0.1' doesn't match 's3.example'", "into THE_ADDRESS"),
        (
            "curlCode: 60, SSL peer certificate or SSH remote key was not OK; Details: unable to",
            "certificates in THE_FILE",
        ),
        (
            "curlCode: 60, SSL peer certificate or SSH remote key was not OK; Details: SSL: no alternative certificate "
            "subject name matches target IPv4 address '127.0.0.1'",
            "into THE_ADDRESS",
        ),
        (f"{_SSL} [SSL: WRONG_VERSION_NUMBER] wrong version number", "write http:// into THE_ADDRESS"),
        (f"{_SSL} [Errno 2] No such file or directory", "that THE_FILE names cannot be read"),
        ("EOF occurred in violation of protocol", None),  # the request may be on its way by then
        ("Connection reset by peer", None),
        ("", None),
    ],
)
def test_a_server_that_is_not_trusted_is_told_from_a_connection_that_broke(why: str, told: str | None) -> None:
    advice = certificate_problem(why, address="THE_ADDRESS", file="THE_FILE")
    assert advice is None if told is None else told in str(advice)
