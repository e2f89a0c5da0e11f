"""From Airflow connections to URLs without passwords."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg.conninfo
import pytest
from airflow.models import crypto
from airflow.models.connection import Connection
from airflow.sdk import BaseHook
from cryptography.fernet import Fernet

from holdfast.common.errors import UsageError
from holdfast_airflow.connections import database_address


def define(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_DB", json.dumps({"conn_type": "postgres", "schema": "shop", **fields}))


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({"host": "h"}, "postgresql://h/shop"),
        ({"host": "h", "port": 5433, "login": "me"}, "postgresql://me@h:5433/shop"),
        ({"host": "::1", "port": 5433}, "postgresql://[::1]:5433/shop"),
        ({"login": "a@b/c", "host": "h", "schema": "my shop/x"}, "postgresql://a%40b%2Fc@h/my%20shop%2Fx"),
        ({"host": "/run/pg", "login": "me"}, "postgresql://me@/shop?host=%2Frun%2Fpg"),
        ({"host": "/run/pg", "port": 5433}, "postgresql:///shop?host=%2Frun%2Fpg&port=5433"),
        ({"extra": {"host": "/run/pg"}}, "postgresql:///shop?host=%2Frun%2Fpg"),
        (
            {"host": "h", "extra": {"sslmode": "verify-full", "sslrootcert": "/ca.pem", "iam": True}},
            "postgresql://h/shop?sslmode=verify-full&sslrootcert=%2Fca.pem",
        ),
        ({"host": "h", "extra": {"connect_timeout": 5}}, "postgresql://h/shop?connect_timeout=5"),
    ],
)
def test_url_says_what_the_connection_says(monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], url: str) -> None:
    define(monkeypatch, **fields)
    address = database_address("db")
    assert address.url == url
    assert address.password is None
    psycopg.conninfo.conninfo_to_dict(address.url)  # libpq reads it


def test_connection_written_as_a_uri_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_DB", "postgresql://me:p%40ss@h:5433/shop?sslmode=require")
    address = database_address("db")
    assert (address.url, address.password) == ("postgresql://me@h:5433/shop?sslmode=require", "p@ss")


def test_secrets_are_neither_in_the_url_nor_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    define(monkeypatch, host="h", password="hunter2", extra={"sslpassword": "hunter3", "passfile": "/p"})
    address = database_address("db")
    assert address.password == "hunter2"
    assert "hunter" not in repr(address)
    assert "hunter" not in address.url
    assert "passfile" not in address.url


def test_missing_connection_says_how_to_make_it() -> None:
    with pytest.raises(UsageError, match=r"no Airflow connection 'gone': make it under Admin > Connections"):
        database_address("gone")


def test_connection_of_another_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    define(monkeypatch, conn_type="mysql", host="h")
    with pytest.raises(UsageError, match="of type 'mysql': for PostgreSQL it must be 'holdfast_postgres'"):
        database_address("db")


def test_connection_without_a_database_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    define(monkeypatch, host="h", schema="")
    with pytest.raises(UsageError, match="names no database: fill in its field 'Database'"):
        database_address("db")


def test_a_connection_that_airflows_key_does_not_open_says_which_variable_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with encrypting_with(monkeypatch, Fernet.generate_key().decode()):
        saved = Connection(conn_id="shop", conn_type="postgres", password="secret", extra="{}")
    monkeypatch.setattr(BaseHook, "get_connection", lambda conn_id: saved)
    with (
        encrypting_with(monkeypatch, Fernet.generate_key().decode()),
        pytest.raises(UsageError, match=r"'shop' cannot be decrypted: AIRFLOW__CORE__FERNET_KEY is not the key"),
    ):
        database_address("shop")


@contextmanager
def encrypting_with(monkeypatch: pytest.MonkeyPatch, key: str) -> Iterator[None]:
    """Have Airflow encrypt with a key."""
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", key)
    crypto.get_fernet.cache_clear()
    yield
    crypto.get_fernet.cache_clear()
