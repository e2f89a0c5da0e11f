"""What an address asks of TLS, as libpq decides it, and what there is to say of a connection over a network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from holdfast.common import postgresql_tls as tls
from holdfast.common.errors import UsageError
from holdfast.common.postgresql_tls import system_certificates, tls_advice
from holdfast.postgresql.connection.address import Address


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("PG", "SSL_CERT")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("url", "variables", "mode", "is_required"),
    [
        ("postgresql://db/shop", {}, "prefer", False),
        ("postgresql://db/shop?sslmode=allow", {}, "allow", False),
        ("postgresql://db/shop?sslmode=require", {"PGSSLMODE": "disable"}, "require", True),
        ("postgresql://db/shop?ssl=true", {}, "require", True),
        ("postgresql://db/shop", {"PGSSLMODE": "verify-ca"}, "verify-ca", True),
        ("postgresql://db/shop?sslrootcert=ca.pem", {}, "prefer", True),
        ("postgresql://db/shop", {"PGSSLROOTCERT": "ca.pem"}, "prefer", True),
        ("postgresql://localhost/shop", {"PGSSLROOTCERT": "ca.pem"}, "prefer", False),
        ("postgresql://db/shop?sslrootcert=system", {}, "verify-full", True),
        ("postgresql://db/shop", {"PGSSLROOTCERT": "system"}, "verify-full", True),
        ("postgresql://db/shop?sslmode=disable", {"PGSSLROOTCERT": "ca.pem"}, "disable", False),
        ("postgresql:///shop?service=there", {"PGSSLMODE": "disable"}, "verify-full", True),
        ("postgresql:///shop", {"PGSERVICE": "there"}, "verify-full", True),
        ("postgresql:///shop?service=there&sslmode=prefer", {}, "prefer", False),
        ("postgresql:///shop?service=elsewhere", {}, "prefer", False),
    ],
)
def test_what_is_asked_for_is_found_where_libpq_finds_it(
    url: str, variables: dict[str, str], mode: str, is_required: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".pg_service.conf").write_text("# ours\n[there]\nhost=db\nsslmode=verify-full\n")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = Address.parse(url).tls
    assert (found.mode, found.is_required) == (mode, is_required)


def test_a_service_of_the_machine_counts_and_a_file_that_is_none_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".pg_service.conf").write_text("no section = 1\n")
    (tmp_path / "pg_service.conf").write_text("[there]\nhost=/run/postgresql\nsslmode=require\n")
    monkeypatch.setenv("PGSYSCONFDIR", str(tmp_path))
    found = Address.parse("postgresql:///shop?service=there").tls
    assert (found.mode, found.is_remote) == ("require", False)


@pytest.mark.parametrize(
    ("url", "variables", "is_remote"),
    [
        ("postgresql://db.example:5433/shop", {}, True),
        ("postgresql://192.0.2.7/shop", {}, True),
        ("postgresql://[2001:db8::1]:5432/shop", {}, True),
        ("postgresql://[::1]:5432/shop", {}, False),
        ("postgresql://localhost/shop", {}, False),
        ("postgresql://127.0.0.2/shop", {}, False),
        ("postgresql:///shop", {}, False),
        ("postgresql:///shop?host=%2Frun%2Fpostgresql", {}, False),
        ("postgresql:///shop?host=db", {}, True),
        ("postgresql:///shop", {"PGHOST": "db"}, True),
        ("postgresql://localhost:1,db:2/shop", {}, True),
        ("postgresql://localhost:1,127.0.0.1:2/shop", {}, False),
        ("postgresql://db/shop?hostaddr=127.0.0.1", {}, False),
        ("postgresql://localhost/shop", {"PGHOSTADDR": "192.0.2.7"}, True),
    ],
)
def test_a_server_is_over_a_network_unless_it_is_reached_on_this_machine(
    url: str, variables: dict[str, str], is_remote: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Address.parse(url).tls.is_remote is is_remote


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("", "an attacker on the way can read and change the data, or answer in the server's place"),
        ("?sslmode=disable", "an attacker on the way can read and change the data"),
        ("?sslrootcert=ca.pem", "with sslmode=prefer: an attacker on the way can read"),
        ("?sslmode=require", "it is encrypted, but the server's certificate is not checked"),
        ("?sslmode=require&sslrootcert=ca.pem", "the name in the server's certificate is not checked"),
        ("?sslmode=verify-ca", "the name in the server's certificate is not checked"),
        ("?sslmode=verify-full", ""),
        ("?sslrootcert=system", ""),
    ],
)
def test_what_somebody_on_the_network_can_do_is_told_with_what_to_do(query: str, told: str) -> None:
    warning = Address.parse(f"postgresql://db/shop{query}").tls.warning()
    assert told in warning
    assert bool(warning) is bool(told)
    assert not told or "add sslmode=verify-full to the address" in warning
    assert Address.parse(f"postgresql://localhost/shop{query}").tls.warning() == ""


def test_the_systems_certificates_are_named_by_their_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "system.pem").touch()
    monkeypatch.setattr(tls, "_SYSTEM_FILES", (str(tmp_path / "none.pem"), str(tmp_path / "system.pem")))
    by_address = Address.parse("postgresql://db/shop?sslrootcert=system")
    monkeypatch.setenv("PGSSLROOTCERT", "system")
    for address in (by_address, Address.parse("postgresql://db/shop")):
        link = conninfo_to_dict(address.link())
        assert (link["sslmode"], link["sslrootcert"]) == ("verify-full", str(tmp_path / "system.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
    with pytest.raises(UsageError, match=r"own\.pem is not there: name their file in SSL_CERT_FILE"):
        by_address.link()
    (tmp_path / "own.pem").touch()
    assert system_certificates() == str(tmp_path / "own.pem")


def test_a_system_without_certificates_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "_SYSTEM_FILES", ())
    with pytest.raises(UsageError, match="at none of their usual places: name their file in SSL_CERT_FILE"):
        Address.parse("postgresql://db/shop?sslrootcert=system").link()


def test_the_systems_certificates_go_with_no_weaker_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    for query in ("sslmode=require", "sslmode=disable"):
        with pytest.raises(UsageError, match=r"sslrootcert=system needs sslmode=verify-full, and it is '\w+'"):
            Address.parse(f"postgresql://db/shop?sslrootcert=system&{query}").link()
    # A server of our own has no TLS, whatever the environment says for others.
    monkeypatch.setenv("PGSSLROOTCERT", "system")
    link = conninfo_to_dict(Address.parse("postgresql://localhost/shop?sslmode=disable").link())
    assert (link["sslmode"], link["sslrootcert"]) == ("disable", "")


def test_what_is_asked_for_is_told_in_words(tmp_path: Path) -> None:
    assert Address.parse("postgresql://db/shop").tls.describe() == "sslmode prefer"
    told = Address.parse("postgresql://db/shop?sslmode=require&sslrootcert=ca.pem").tls.describe()
    assert told == "sslmode require, certificates of ca.pem"
    (tmp_path / ".postgresql").mkdir()
    (tmp_path / ".postgresql" / "root.crt").touch()
    usual = Address.parse("postgresql://db/shop?sslmode=require").tls
    assert usual.describe() == "sslmode require, certificates of ~/.postgresql/root.crt"


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("SSL error: tlsv1 alert unknown ca", "the server does not take the client's certificate"),
        ("SSL error: tlsv13 alert certificate required", "name the file of yours in sslcert"),
        ('FATAL:  certificate authentication failed for user "me"', "is for another user"),
        ('sslmode value "require" invalid when SSL support is not compiled in', "was built without TLS"),
        ('no pg_hba.conf entry for host "10.0.0.1", user "me", database "shop", no encryption', "with TLS alone"),
        ('could not read root certificate file "ca.pem": no certificate', "name a file with the certificates"),
    ],
)
def test_tls_that_failed_is_told_with_what_to_do(said: str, advice: str) -> None:
    assert advice in (tls_advice(said) or "")


def test_what_is_about_something_else_gets_no_advice() -> None:
    assert tls_advice("Connection refused") is None
