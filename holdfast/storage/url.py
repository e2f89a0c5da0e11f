"""From the URL people write to the store it names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from holdfast.errors import UsageError
from holdfast.storage.folder import FolderStore

if TYPE_CHECKING:
    from holdfast.storage.base import ObjectStore

SUPPORTED = "a folder, file:///folder or s3://bucket/prefix"


def open_store(url: str) -> ObjectStore:
    """The store at ``url``: a folder, ``file://…`` or ``s3://bucket/prefix``.

    Nothing is read or created yet. S3 takes credentials, region and endpoint from the usual ``AWS_*``
    variables.

    :raises UsageError: the URL names no store, or carries a secret
    """
    if not url:
        raise UsageError(f"The archive's URL is empty; write {SUPPORTED}.")
    if "://" not in url:
        return FolderStore(Path(url).expanduser())
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise UsageError("An archive's URL holds no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
    if parts.query or parts.fragment:
        raise UsageError(f"The archive's URL {url!r} has a '?' or '#' in it; write {SUPPORTED}.")
    if parts.scheme == "file":
        return _open_file_url(url, parts.netloc, unquote(parts.path))
    if parts.scheme in {"s3", "s3a"}:
        return _open_s3_url(url, parts.netloc, parts.path)
    raise UsageError(f"No store is known for {parts.scheme}:// URLs; write {SUPPORTED}.")


def _open_file_url(url: str, host: str, path: str) -> ObjectStore:
    if host not in {"", "localhost"} or not path:
        raise UsageError(f"{url!r} names no folder of this machine; write file:///folder.")
    return FolderStore(path)


def _open_s3_url(url: str, bucket: str, path: str) -> ObjectStore:
    if not bucket:
        raise UsageError(f"{url!r} names no bucket; write s3://bucket/prefix.")
    # boto3 takes a tenth of a second and more to import; who works in a folder need not wait for it.
    from holdfast.storage.s3 import S3Store

    return S3Store(bucket, path.strip("/"))
