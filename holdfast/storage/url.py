"""Object stores by their URLs."""

from __future__ import annotations

from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from holdfast.common.errors import UsageError
from holdfast.storage.folder import FolderStore
from locking.one_line import line_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.storage.contract.object_store import ObjectStore

SUPPORTED = "a folder, file:///folder, s3://bucket/prefix, az://container/prefix or gs://bucket/prefix"

_AWS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_CREDENTIALS = {
    "az": "set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY or its like",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to the path of a key file, or use what else Google's libraries find",
}
"""Where they belong instead, by scheme."""

_CLOUDS = {"az": ("Azure", "container", "azure"), "gs": ("Google Cloud Storage", "bucket", "gcs")}
"""The name, what holds the objects, and the extra of our package, by scheme."""


def open_url(url: str) -> ObjectStore:
    """Return the object store at a URL; nothing is read or created yet.

    The URL is a folder, ``file://…``, ``s3://bucket/prefix``, ``az://container/prefix`` or ``gs://…``. Credentials and
    endpoint come from the environment: S3's from the usual ``AWS_*`` variables, Azure's from ``AZURE_STORAGE_*``,
    Google's as google-auth finds them. A server that is reached in the clear over a network is warned of.

    :raises UsageError: the URL names no store or carries a secret, what the store needs is not installed, or no account
        is named
    """
    if not url:
        raise UsageError(f"The archive's URL is empty; write {SUPPORTED}.")
    if "://" not in url:
        return FolderStore(Path(url).expanduser())
    parts = urlsplit(url)
    if parts.scheme not in {"file", "s3", "s3a", *_CLOUDS}:
        raise UsageError(f"No store is known for {parts.scheme}:// URLs; write {SUPPORTED}.")
    if "@" in parts.netloc:
        raise UsageError(f"An archive's URL holds no credentials; {_CREDENTIALS.get(parts.scheme, _AWS)}.")
    if parts.query or parts.fragment:
        # Not shown: it may be a signature that opens the store.
        raise UsageError(f"The archive's URL has a '?' or '#' in it, after {parts.path!r}; write {SUPPORTED}.")
    if parts.scheme == "file":
        return _open_file_url(url, parts.netloc, unquote(parts.path))
    if parts.scheme in _CLOUDS:
        store = _open_cloud_url(url, parts.scheme, parts.netloc, parts.path.strip("/"))
    else:
        store = _open_s3_url(url, parts.netloc, parts.path)
    warn_of_clear_text(store.endpoint)
    return store


def _open_file_url(url: str, host: str, path: str) -> ObjectStore:
    if host not in {"", "localhost"} or not path:
        raise UsageError(f"{url!r} names no folder of this machine; write file:///folder.")
    return FolderStore(path)


def _open_s3_url(url: str, bucket: str, path: str) -> ObjectStore:
    if not bucket:
        raise UsageError(f"{url!r} names no bucket; write s3://bucket/prefix.")
    # boto3 takes a tenth of a second and more to import: an archive in a folder need not wait for it.
    from holdfast.storage.s3.store import S3Store

    return S3Store(bucket, path.strip("/"))


def _open_cloud_url(url: str, scheme: str, name: str, prefix: str) -> ObjectStore:
    cloud, kind, extra = _CLOUDS[scheme]
    if not name:
        raise UsageError(f"{url!r} names no {kind}; write {scheme}://{kind}/prefix.")
    try:
        return _cloud_store(scheme)(name, prefix)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"azure", "google", "requests"}:
            raise
        raise UsageError(
            f"{cloud} needs {error.name}, which is not installed: install Holdfast's wheel with its extra {extra}."
        ) from error


def _cloud_store(scheme: str) -> Callable[[str, str], ObjectStore]:
    if scheme == "az":
        from holdfast.storage.azure.store import AzureStore

        return AzureStore
    from holdfast.storage.gcs.store import GcsStore

    return GcsStore


logger = line_logger(__name__)


@cache
def warn_of_clear_text(endpoint: str) -> None:
    """Warn of a server, by its address, that speaks plain HTTP and is not on this machine."""
    parts = urlsplit(endpoint)
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        logger.warning(
            "%s is reached over a network in the clear: an attacker on the way can change what goes over it, and read "
            "the rows of an archive that is not encrypted: give the server a certificate and write https:// into its "
            "address",
            endpoint,
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
