"""Connections to databases: their form and their test button."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

from holdfast.common.errors import UsageError
from holdfast.postgresql.connection.address import Address
from holdfast_airflow.connections import database_address
from holdfast_airflow.hooks import HoldfastPostgresHook


def connect(monkeypatch: pytest.MonkeyPatch, name: str, **fields: object) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(fields))


def test_the_forms_of_both_types_have_their_own_fields() -> None:
    forms = {form.connection_type: form for form in HookMetaService.hook_meta_data()}
    database, archive = forms["holdfast_postgres"], forms["holdfast"]
    assert set(database.extra_fields or {}) == {"sslmode", "sslrootcert", "sslcert", "sslkey"}
    assert (database.extra_fields or {})["sslmode"]["schema"]["default"] == "verify-full"
    assert database.standard_fields is not None
    assert database.standard_fields.url_schema is not None
    assert database.standard_fields.url_schema.title == "Database"
    assert archive.standard_fields is not None
    assert archive.standard_fields.host is not None
    assert archive.standard_fields.host.title == "URL"
    assert archive.standard_fields.password is not None
    assert archive.standard_fields.password.hidden


@pytest.mark.service
def test_a_database_says_what_it_is_or_what_to_do(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = Address.parse(address.url)
    host, _, port = parts.url.partition("@")[2].partition("/")[0].partition(":")
    user = parts.url.partition("//")[2].partition("@")[0]
    fields = {"conn_type": "holdfast_postgres", "host": host, "port": int(port), "schema": address.database}
    connect(monkeypatch, "shop", **fields, login=user, password=address.password, extra={"sslcert": ""})
    works, said = HoldfastPostgresHook("shop").test_connection()
    assert works, said
    assert "no TLS; incremental backups are possible" in said
    connect(monkeypatch, "shop", **fields, login=user, password="wrong")
    works, said = HoldfastPostgresHook("shop").test_connection()
    assert (works, "refused the log-in" in said, "wrong" in said) == (False, True, False)
    assert quote(address.password or "", safe="") not in said


def test_a_database_of_another_type_says_which_it_must_be(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "other", conn_type="mysql", schema="shop")
    with pytest.raises(UsageError, match="must be 'holdfast_postgres' or 'postgres'"):
        database_address("other")
