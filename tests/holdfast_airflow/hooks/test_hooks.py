"""Connection types with forms of their own, and their test buttons."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

from holdfast.archive import Archive
from holdfast.common.errors import UsageError
from holdfast.sources.postgresql.connection.address import Address
from holdfast.storage import open_store
from holdfast_airflow.connections import database_address, find_archive_or_connection
from holdfast_airflow.hooks import HoldfastHook, HoldfastPostgresHook


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


def test_an_archive_may_be_a_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = str(tmp_path / "archive")
    connect(monkeypatch, "offsite", conn_type="holdfast", host=url)
    works, said = HoldfastHook("offsite").test_connection()
    assert (works, "holdfast init" in said) == (False, True)
    Archive.create(open_store(url), name="shop")
    assert HoldfastHook("offsite").test_connection() == (True, "format 2, 0 commits, 0 blocks")
    assert find_archive_or_connection("offsite").place() == url
    assert find_archive_or_connection(url).place() == url


def test_a_key_is_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "offsite", conn_type="holdfast", host=str(tmp_path), extra={"key": "file:/run/key"})
    assert find_archive_or_connection("offsite").key == "file:/run/key"
    connect(monkeypatch, "offsite", conn_type="holdfast", host=str(tmp_path), extra={"key": "c2VjcmV0"})
    with pytest.raises(UsageError, match="key"):
        find_archive_or_connection("offsite")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"conn_type": "http", "host": "x"}, "for an archive it must be 'holdfast'"),
        ({"conn_type": "holdfast"}, "fill in its field 'URL'"),
    ],
)
def test_a_connection_that_is_no_archive_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], said: str
) -> None:
    connect(monkeypatch, "offsite", **fields)
    with pytest.raises(UsageError, match=said):
        find_archive_or_connection("offsite")


def test_a_name_that_nobody_knows_is_refused_as_before() -> None:
    with pytest.raises(UsageError, match="no archive 'nowhere'"):
        find_archive_or_connection("nowhere")


def test_a_database_of_another_type_says_which_it_must_be(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "other", conn_type="mysql", schema="shop")
    with pytest.raises(UsageError, match="must be 'holdfast_postgres' or 'postgres'"):
        database_address("other")
