"""Stores, keys and databases as tasks get them on another machine: with all that opens them, and nothing in the URL."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from holdfast.common.errors import UsageError
from holdfast.common.remote_environment import IDENTITY_VARIABLE, RemoteEnvironment, collected
from holdfast.postgresql.connection.address import Address
from holdfast.storage import open_store
from holdfast.storage.encryption.key_source import new_key


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "PG", "HOLDFAST_", "REQUESTS_", "CURL_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def travelled(thing: object) -> tuple[RemoteEnvironment, bytes]:
    with collected() as remote:
        return remote, pickle.dumps(thing)


def test_a_store_on_s3_takes_its_server_certificates_and_credentials_along(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / "ca.pem").write_text("its certificates")
    (tmp_path / ".aws" / "config").write_text(
        f"[profile backup]\nregion = eu-west-3\nendpoint_url = https://s3.example:9000\nca_bundle = {tmp_path}/ca.pem\n"
        "s3 =\n  addressing_style = path\n"
    )
    (tmp_path / ".aws" / "credentials").write_text(
        "[backup]\naws_access_key_id = AKIA\naws_secret_access_key = s3cret\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "backup")
    remote, _ = travelled(open_store("s3://bucket/shop"))
    assert remote.variables == {
        "AWS_ENDPOINT_URL_S3": "https://s3.example:9000",
        "AWS_ENDPOINT_URL": None,
        "AWS_REGION": "eu-west-3",
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "AWS_SESSION_TOKEN": None,
        "AWS_PROFILE": None,
        "AWS_DEFAULT_PROFILE": None,
    }
    assert remote.files == {"AWS_CA_BUNDLE": b"its certificates"}


def test_workers_that_are_to_be_themselves_get_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(IDENTITY_VARIABLE, "own")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "backups")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "c2VjcmV0")
    remote, _ = travelled([open_store("s3://bucket/shop"), open_store("az://container/shop")])
    assert remote.variables == {
        "AWS_ENDPOINT_URL_S3": None,
        "AWS_ENDPOINT_URL": None,
        "AWS_REGION": "us-east-1",
        "AZURE_STORAGE_CONNECTION_STRING": None,
        "AZURE_STORAGE_ACCOUNT": "backups",
        "AZURE_STORAGE_SERVICE_ENDPOINT": "https://backups.blob.core.windows.net",
    }


@pytest.mark.parametrize(
    ("given", "credentials"),
    [
        ({"AZURE_STORAGE_KEY": "c2VjcmV0"}, {"AZURE_STORAGE_KEY": "c2VjcmV0", "AZURE_STORAGE_SAS_TOKEN": None}),
        ({"AZURE_STORAGE_SAS_TOKEN": "?sig"}, {"AZURE_STORAGE_KEY": None, "AZURE_STORAGE_SAS_TOKEN": "sig"}),
        (
            {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s"},
            {
                "AZURE_STORAGE_KEY": None,
                "AZURE_STORAGE_SAS_TOKEN": None,
                "AZURE_TENANT_ID": "t",
                "AZURE_CLIENT_ID": "c",
                "AZURE_CLIENT_SECRET": "s",
            },
        ),
    ],
    ids=["key", "signature", "service principal"],
)
def test_a_store_on_azure_takes_its_account_along(
    given: dict[str, str], credentials: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "backups")
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    remote, _ = travelled(open_store("az://container/shop"))
    assert {name: remote.variables[name] for name in credentials} == credentials
    assert remote.variables["AZURE_STORAGE_ACCOUNT"] == "backups"


@pytest.mark.parametrize("usual", [True, False])
def test_a_store_on_google_takes_its_key_file_along(
    usual: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / ".config/gcloud/application_default_credentials.json" if usual else tmp_path / "key.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    if not usual:
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    remote, _ = travelled(open_store("gs://bucket/shop"))
    assert remote.files == {"GOOGLE_APPLICATION_CREDENTIALS": b"{}"}
    assert remote.variables == {"STORAGE_EMULATOR_HOST": None}


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
@pytest.mark.parametrize("url", ["az://container/shop", "gs://bucket/shop"])
def test_stores_on_azure_and_google_take_their_authorities_along(
    url: str, variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text("its certificates")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "backups")
    monkeypatch.setenv(variable, str(tmp_path / "ca.pem"))
    remote, _ = travelled(open_store(url))
    assert remote.files == {"REQUESTS_CA_BUNDLE": b"its certificates"}


@pytest.mark.parametrize("kind", ["file", "env", "command"])
def test_the_key_of_an_archive_is_found_there_whatever_held_it_here(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(new_key())
    monkeypatch.setenv("THE_KEY", (tmp_path / "key").read_text())
    rest = {"file": tmp_path / "key", "env": "THE_KEY", "command": f"cat {tmp_path}/key"}[kind]
    store = open_store(str(tmp_path / "archive"), f"{kind}:{rest}")
    store.begin()
    store.put("data/1", b"sealed")
    remote, packed = travelled(store)
    assert (tmp_path / "key").read_bytes().strip() not in packed
    (tmp_path / "key").unlink()
    monkeypatch.delenv("THE_KEY")
    for name, value in remote.variables.items():
        monkeypatch.setenv(name, str(value))
    assert pickle.loads(packed).get("data/1") == b"sealed"  # noqa: S301 - our own bytes


def test_a_key_that_never_leaves_its_service_stays_there(tmp_path: Path) -> None:
    remote, packed = travelled(open_store(str(tmp_path / "archive"), "kms:wrapper --profile backup"))
    assert remote.variables == {}
    assert b"kms:wrapper --profile backup" in packed


def test_an_address_takes_password_and_files_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ca.pem", "client.crt"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".postgresql").mkdir()
    (tmp_path / ".postgresql" / "postgresql.key").write_text("its usual key")
    monkeypatch.setenv("PGSSLCERT", str(tmp_path / "client.crt"))
    monkeypatch.setenv("PGPASSWORD", "s3cret")
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    address = Address.parse(f"postgresql://me@db/shop?sslrootcert={tmp_path}/ca.pem&connect_timeout=5")
    remote, packed = travelled(address)
    monkeypatch.delenv("PGPASSWORD")
    there = pickle.loads(packed)  # noqa: S301 - our own bytes
    assert (there.url, there.password) == ("postgresql://me@db/shop?connect_timeout=5", "s3cret")
    assert remote.variables == {"PGSSLMODE": "verify-full"}
    assert remote.files == {
        "PGSSLROOTCERT": b"ca.pem",
        "PGSSLCERT": b"client.crt",
        "PGSSLKEY": b"its usual key",
    }


@pytest.mark.parametrize("named_by", ["address", "environment"])
def test_an_address_that_trusts_the_systems_certificates_does_so_there(
    named_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = Address.parse("postgresql://me@db/shop?sslrootcert=system")
    if named_by == "environment":
        monkeypatch.setenv("PGSSLROOTCERT", "system")
    remote, packed = travelled(address if named_by == "address" else Address.parse("postgresql://me@db/shop"))
    assert pickle.loads(packed) == address  # noqa: S301 - our own bytes
    assert remote == RemoteEnvironment()


def test_a_certificate_that_is_not_there_is_said_before_any_task_runs() -> None:
    with pytest.raises(UsageError, match=r"/nowhere/ca\.pem \(PGSSLROOTCERT\) cannot be read"):
        travelled(Address.parse("postgresql://me@db/shop?sslrootcert=/nowhere/ca.pem"))


def test_on_this_machine_nothing_is_taken_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PGPASSWORD", "s3cret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    (tmp_path / "key").write_text(new_key())
    things = [
        open_store("s3://bucket/shop"),
        open_store(str(tmp_path / "archive"), f"file:{tmp_path}/key"),
        Address.parse("postgresql://me@db/shop"),
    ]
    packed = pickle.dumps(things)
    assert b"s3cret" not in packed
    assert (tmp_path / "key").read_bytes().strip() not in packed
