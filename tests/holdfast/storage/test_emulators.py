"""The emulators of Azure and of Google Cloud Storage that tests start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas

from holdfast.storage import ObjectStore, StoreDenied, StoreError, open_store
from tests.support.servers.certificates import Authority
from tests.support.stores.azurite import ACCOUNT, ACCOUNT_KEY, AzureServer, running_azurite


def test_a_bucket_that_is_not_there_is_told_from_an_object(cloud: ObjectStore) -> None:
    store = open_store(f"{cloud.url.partition('://')[0]}://nowhere-at-all/x")
    # Of a read in a bucket that is missing, fake-gcs-server says the same as of an object that is.
    for use in (lambda: store.list(""), lambda: store.put("a", b""), lambda: store.create("a", b"")):
        with pytest.raises(StoreError, match="does not exist"):
            use()


@pytest.mark.service
def test_a_wrong_key_is_denied_and_not_shown(azure_server: AzureServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**azure_server.environment, "AZURE_STORAGE_KEY": "d3JvbmctYW5kLXNlY3JldA=="}.items():
        monkeypatch.setenv(name, value)
    store = open_store("az://container/x")
    for use in (lambda: store.list(""), lambda: store.put("a", b"")):
        with pytest.raises(StoreDenied, match="AZURE_STORAGE_") as caught:
            use()
        assert "d3Jvbmct" not in str(caught.value)


@pytest.mark.service
def test_a_shared_access_signature_opens_what_it_allows(
    azure_server: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    azure_server.make_container("signed")
    signature = generate_container_sas(
        ACCOUNT,
        "signed",
        account_key=ACCOUNT_KEY,
        permission=ContainerSasPermissions(read=True, list=True),
        expiry=datetime.now(UTC) + timedelta(minutes=5),
    )
    for name, value in azure_server.environment.items():
        monkeypatch.setenv(name, value)
    open_store("az://signed/x").put("a", b"1")
    monkeypatch.delenv("AZURE_STORAGE_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", signature)
    store = open_store("az://signed/x")
    filesystem, root = store.filesystem()
    assert store.get("a") == filesystem.open_input_file(f"{root}/a").read() == b"1"
    with pytest.raises(StoreDenied):
        store.put("a", b"2")


@pytest.mark.service
@pytest.mark.parametrize(
    ("trusts", "made_for", "days", "told"),
    [
        ("own", "127.0.0.1", 1, None),
        ("other", "127.0.0.1", 1, r"certificates in REQUESTS_CA_BUNDLE\.$"),
        pytest.param("own", "127.0.0.1", -1, "has expired: have it renewed", marks=pytest.mark.exhaustive),
        pytest.param(
            "own",
            "blobs.example",
            1,
            "for another name: write the name that it is for into AZURE_STORAGE_SERVICE_ENDPOINT",
            marks=pytest.mark.exhaustive,
        ),
    ],
    ids=["good", "by nobody known", "expired", "of another name"],
)
def test_a_server_of_azures_protocol_is_used_only_where_its_certificate_is_good(
    trusts: str, made_for: str, days: int, told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {name: Authority.made(tmp_path, name) for name in ("own", "other")}
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(known[trusts].certificate))
    with running_azurite(known["own"].server(tmp_path, host=made_for, days=days)) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        store = open_store("az://backups/x")
        if told is not None:
            with pytest.raises(StoreError, match=told):
                store.create("a", b"x")
            return
        server.make_container("backups")
        store.create("a", b"x")
        filesystem, root = store.filesystem()
        with filesystem.open_input_stream(f"{root}/a".lstrip("/")) as file:
            assert file.read() == b"x"
