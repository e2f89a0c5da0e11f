"""The storage account: which one the environment names, and how its servers are asked."""

from __future__ import annotations

import pytest
from azure.core.credentials import AzureSasCredential
from pyarrow.fs import AzureFileSystem

from holdfast.common.errors import UsageError
from holdfast.storage import open_url
from holdfast.storage.azure.account import AzureAccount
from holdfast.storage.azure.store import AzureStore
from holdfast.storage.contract.connections import Connections

pytestmark = pytest.mark.usefixtures("no_settings")

ACCOUNT = {"AZURE_STORAGE_ACCOUNT": "ann", "AZURE_STORAGE_KEY": "c2VzYW1l"}


@pytest.mark.parametrize(
    ("variables", "endpoint"),
    [
        (ACCOUNT, "https://ann.blob.core.windows.net"),
        (
            {"AZURE_STORAGE_ACCOUNT": "ann", "AZURE_STORAGE_SAS_TOKEN": "?sig=sesame"},
            "https://ann.blob.core.windows.net",
        ),
        ({**ACCOUNT, "AZURE_STORAGE_SERVICE_ENDPOINT": "http://127.0.0.1:9/ann/"}, "http://127.0.0.1:9/ann"),
        (
            {
                "AZURE_STORAGE_CONNECTION_STRING": "AccountName=ann;AccountKey=c2VzYW1l==;"
                "EndpointSuffix=core.chinacloudapi.cn"
            },
            "https://ann.blob.core.chinacloudapi.cn",
        ),
        (
            {
                "AZURE_STORAGE_CONNECTION_STRING": "BlobEndpoint=https://ann.blob.core.windows.net/?sig=sesame;"
                "SharedAccessSignature=sv=2024-11-04&sig=sesame"
            },
            "https://ann.blob.core.windows.net",
        ),
    ],
)
def test_the_environment_names_the_azure_account(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], endpoint: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    account = AzureAccount.from_environment()
    assert (account.name, account.endpoint) == ("ann", endpoint)
    assert account.key or account.sas.endswith("sig=sesame")
    store = open_url("az://container/some/prefix/")
    assert isinstance(store, AzureStore)
    assert (store.url, store.endpoint) == ("az://container/some/prefix", endpoint)
    assert "sesame" not in f"{account!r}{store!r}"
    assert store.filesystem()[1] == "container/some/prefix"


@pytest.mark.parametrize("text", ["", "AccountKey=c2VzYW1l", "sesame"])
def test_without_an_azure_account_the_variables_to_set_are_named(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    with pytest.raises(UsageError, match="AZURE_STORAGE_CONNECTION_STRING"):
        open_url("az://container/x")


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://ann.blob.core.windows.net",
        "http://127.0.0.1:9/ann",
        "http://localhost:9/ann/",
        "https://ann.example.com:9",
    ],
)
def test_an_endpoint_names_its_account(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", endpoint)
    assert AzureAccount.from_environment().name == "ann"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"BlobEndpoint={endpoint};SharedAccessSignature=sig=sesame")
    assert AzureAccount.from_environment().name == "ann"


def test_a_connection_string_counts_before_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**ACCOUNT, "AZURE_STORAGE_SERVICE_ENDPOINT": "http://127.0.0.1:9/ann"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(
        "AZURE_STORAGE_CONNECTION_STRING", "AccountName=bob;AccountKey=a==;DefaultEndpointsProtocol=http"
    )
    account = AzureAccount.from_environment()
    assert account == AzureAccount("bob", "http://bob.blob.core.windows.net", "a==")


@pytest.mark.parametrize(
    ("endpoint", "is_azure"),
    [
        ("https://ann.blob.core.windows.net", True),
        ("https://ann.z1.blob.storage.azure.net", True),
        ("https://ann.blob.core.usgovcloudapi.net", True),
        ("https://ann.blob.core.windows.net.example.com", False),
        ("https://evilcore.windows.net", False),
        ("http://127.0.0.1:9/ann", False),
    ],
)
def test_only_microsofts_own_names_are_azure(endpoint: str, is_azure: bool) -> None:
    assert AzureAccount("ann", endpoint).is_azure is is_azure


@pytest.mark.parametrize(
    ("secrets", "by_signature"),
    [({"key": "c2VzYW1l"}, False), ({"key": "c2VzYW1l", "sas": "sig=x"}, False), ({"sas": "sig=x"}, True)],
)
def test_a_container_is_asked_by_the_key_or_else_by_the_signature(secrets: dict[str, str], by_signature: bool) -> None:
    client = AzureAccount("ann", "http://127.0.0.1:9/ann", **secrets).container("box", Connections())
    assert client.url.partition("?")[0] == "http://127.0.0.1:9/ann/box"
    assert isinstance(client.credential, AzureSasCredential) is by_signature


def test_pyarrow_finds_the_same_server() -> None:
    def filesystem(endpoint: str) -> AzureFileSystem:
        return AzureFileSystem(
            "ann", account_key="c2VzYW1l", blob_storage_authority=endpoint, dfs_storage_authority=endpoint,
            blob_storage_scheme="http", dfs_storage_scheme="http",
        )  # fmt: skip

    emulator = AzureAccount("ann", "http://127.0.0.1:9/ann", "c2VzYW1l").filesystem()
    assert emulator.equals(filesystem("127.0.0.1:9"))
    assert not emulator.equals(filesystem("127.0.0.1:10"))
    assert AzureAccount("ann", "http://127.0.0.1:9/ann", "c2VzYW1l", "sig=x").filesystem().equals(emulator)
    plain = AzureAccount("ann", "https://ann.blob.core.windows.net", "c2VzYW1l").filesystem()
    assert plain.equals(AzureFileSystem("ann", account_key="c2VzYW1l"))


def test_a_domain_of_ones_own_stands_behind_the_accounts_name() -> None:
    found = AzureAccount("ann", "https://ann.blob.core.chinacloudapi.cn", "c2VzYW1l").filesystem()
    assert found.equals(
        AzureFileSystem(
            "ann", account_key="c2VzYW1l", blob_storage_authority=".blob.core.chinacloudapi.cn",
            dfs_storage_authority=".dfs.core.chinacloudapi.cn", blob_storage_scheme="https", dfs_storage_scheme="https",
        )
    )  # fmt: skip


def test_no_token_is_sent_in_the_clear() -> None:
    with pytest.raises(UsageError, match=r"^http://127\.0\.0\.1:9/ann is reached in the clear.*write https://"):
        AzureAccount("ann", "http://127.0.0.1:9/ann").container("box", Connections())
