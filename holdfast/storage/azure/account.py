"""Azure storage account from the environment, and its clients."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import BlobServiceClient

from holdfast.common.errors import UsageError
from holdfast.common.remote_environment import is_driver_who_asks
from holdfast.storage.contract.connections import Connections, add_certificates, address_of
from holdfast.storage.contract.patience import USUAL
from holdfast.storage.contract.settings import check_line_breaks

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential
    from azure.storage.blob import ContainerClient
    from pyarrow.fs import FileSystem

    from holdfast.common.remote_environment import RemoteEnvironment

AZURE_DOMAINS = (".core.windows.net", ".core.chinacloudapi.cn", ".core.usgovcloudapi.net", ".storage.azure.net")
"""What the names of Microsoft's own servers end in."""

_PRINCIPAL = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_AUTHORITY_HOST")
"""Variables of a service principal with a secret. Source: azure-identity, EnvironmentCredential."""


@dataclass(frozen=True)
class AzureAccount:
    """Azure storage account."""

    name: str
    endpoint: str  # of its blob service, without a secret
    key: str = ""
    """Of the account; with neither this nor ``sas``, ``azure.identity.DefaultAzureCredential`` finds who we are."""
    sas: str = ""  # shared access signature

    def __repr__(self) -> str:
        return f"AzureAccount({self.name!r}, {self.endpoint!r})"

    @classmethod
    def from_environment(cls) -> AzureAccount:
        """Return the account that the variables of the ``az`` command name; UsageError: none."""
        check_line_breaks("AZURE_")
        if text := os.environ.get("AZURE_STORAGE_CONNECTION_STRING"):
            return cls._from_connection_string(text)
        name = os.environ.get("AZURE_STORAGE_ACCOUNT", "")
        endpoint = os.environ.get("AZURE_STORAGE_SERVICE_ENDPOINT", "")
        if not name and not endpoint:
            raise UsageError(
                "No Azure storage account is named: set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT and "
                "AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN."
            )
        return cls(
            name=name or _account_of(endpoint),
            endpoint=address_of(endpoint or f"https://{name}.blob.core.windows.net"),
            key=os.environ.get("AZURE_STORAGE_KEY", ""),
            sas=os.environ.get("AZURE_STORAGE_SAS_TOKEN", "").lstrip("?"),
        )

    @classmethod
    def _from_connection_string(cls, text: str) -> AzureAccount:
        """Read ``Name=value;…`` as Microsoft's "Configure Azure Storage connection strings" describes it."""
        values = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
        name = values.get("AccountName", "")
        endpoint = values.get("BlobEndpoint", "")
        if not name and not endpoint:
            raise UsageError("AZURE_STORAGE_CONNECTION_STRING has neither AccountName nor BlobEndpoint in it.")
        scheme, suffix = (
            values.get("DefaultEndpointsProtocol", "https"),
            values.get("EndpointSuffix", "core.windows.net"),
        )
        return cls(
            name=name or _account_of(endpoint),
            endpoint=address_of(endpoint or f"{scheme}://{name}.blob.{suffix}"),
            key=values.get("AccountKey", ""),
            sas=values.get("SharedAccessSignature", "").lstrip("?"),
        )

    def add_to(self, remote: RemoteEnvironment) -> None:
        """Add what reaches this account from another machine: address, certificates and, if asked, credentials."""
        add_certificates(remote)
        remote.add({"AZURE_STORAGE_CONNECTION_STRING": None, "AZURE_STORAGE_ACCOUNT": self.name})
        remote.add({"AZURE_STORAGE_SERVICE_ENDPOINT": self.endpoint})
        if is_driver_who_asks():
            remote.add({"AZURE_STORAGE_KEY": self.key or None, "AZURE_STORAGE_SAS_TOKEN": self.sas or None})
            if not self.key and not self.sas:
                remote.add_own(_PRINCIPAL)

    @property
    def is_azure(self) -> bool:
        return (urlsplit(self.endpoint).hostname or "").endswith(AZURE_DOMAINS)

    def container(self, name: str, connections: Connections) -> ContainerClient:
        """Return a container's client, which sends every request once.

        :raises UsageError: it would send a token in the clear, which the client does not.
        """
        session = requests.Session()
        for scheme in ("https://", "http://"):
            session.mount(scheme, connections)
        transport = RequestsTransport(session=session, connection_timeout=USUAL.connect_s, read_timeout=USUAL.read_s)
        credential = self._credential()
        if not isinstance(credential, AzureNamedKeyCredential | AzureSasCredential) and self.endpoint.startswith(
            "http:"
        ):
            raise UsageError(
                f"{self.endpoint} is reached in the clear, and no token of a log-in is sent so: write https:// into "
                "its address, or set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN."
            )
        service = BlobServiceClient(self.endpoint, credential=credential, transport=transport, retry_total=0)
        return service.get_container_client(name)

    def filesystem(self) -> FileSystem:
        """Return the account as a pyarrow filesystem, whose root holds the containers."""
        from pyarrow.fs import AzureFileSystem

        options: dict[str, Any] = {"account_key": self.key} if self.key else {}
        if self.sas and not self.key:
            options["sas_token"] = f"?{self.sas}"  # it is put behind the URL as it is
        server = urlsplit(self.endpoint)
        if not (server.hostname or "").endswith(".blob.core.windows.net"):
            # An account's own name goes before the domain, or, on an emulator, into the path.
            authority = server.netloc.removeprefix(self.name)
            options |= {"blob_storage_authority": authority, "blob_storage_scheme": server.scheme}
            options |= {
                "dfs_storage_authority": authority.replace(".blob.", ".dfs."),
                "dfs_storage_scheme": server.scheme,
            }
        return AzureFileSystem(self.name, **options)

    def _credential(self) -> AzureNamedKeyCredential | AzureSasCredential | TokenCredential:
        if self.key:
            return AzureNamedKeyCredential(self.name, self.key)
        if self.sas:
            return AzureSasCredential(self.sas)
        # It loads much that a key does not need.
        from azure.identity import DefaultAzureCredential

        return DefaultAzureCredential()


def _account_of(endpoint: str) -> str:
    """Return the account's name: the path of an emulator's address, or the first label of the host."""
    parts = urlsplit(endpoint)
    return parts.path.strip("/") or (parts.hostname or "").partition(".")[0]
