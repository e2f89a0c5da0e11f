"""Access to the server of an S3 store: its address, how buckets are named there, how often it is asked."""

from __future__ import annotations

import base64
import hashlib
import io
import logging
import os
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import ProfileNotFound
from botocore.loaders import Loader, create_loader

from holdfast.common.errors import UsageError
from holdfast.common.remote_environment import is_driver_who_asks
from holdfast.storage.contract.patience import USUAL, Patience
from holdfast.storage.s3.credentials import credentials_are_renewed, current_credentials, share_credentials
from holdfast.storage.s3.settings import S3Settings

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials
    from mypy_boto3_s3 import S3Client
    from pyarrow.fs import FileSystem

    from holdfast.common.remote_environment import RemoteEnvironment

_OF_CREDENTIALS = logging.getLogger("botocore.credentials")
if _OF_CREDENTIALS.level == logging.NOTSET:
    # It logs with each session where it has found them: in a task's log, more often than all the rest.
    _OF_CREDENTIALS.setLevel(logging.WARNING)

POOL_CONNECTIONS = 32  # connections that threads sharing one store may use at once
MAKES_AN_OBJECT = ("PutObject", "CreateMultipartUpload")

_HAS_CONTENT = ("PutObject", "UploadPart", "DeleteObjects")
"""Requests that S3 wants a checksum of: of objects, where the bucket locks them. Older servers know only this one.

Source: Amazon S3 API reference, 'PutObject' (Content-MD5), 'DeleteObjects'.
"""


class S3Access:
    """Factory of clients for one server.

    :raises UsageError: the environment names a profile that is not there, or an addressing style that is none
    """

    def __init__(self, settings: S3Settings, patience: Patience | None = None) -> None:
        self._patience = patience or USUAL
        core = botocore.session.Session()
        try:
            self._session = boto3.session.Session(botocore_session=core)
            configured = core.get_scoped_config().get("s3") or {}
            core.register_component("data_loader", _loader(core.get_config_variable("data_path")))
            share_credentials(core)
            self._certificates: str | None = core.get_config_variable("ca_bundle")
        except ProfileNotFound as error:
            raise UsageError(f"{error}; AWS_PROFILE names it.") from error
        self._endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None
        self._region = os.environ.get("AWS_REGION") or self._session.region_name or "us-east-1"
        self._settings = settings
        self._addressing = settings.addressing or S3Settings(configured.get("addressing_style", "")).addressing
        self._filesystem: tuple[ReadOnlyCredentials | None, FileSystem] | None = None

    @cached_property
    def endpoint(self) -> str:
        """Return the server's address, wherever it was configured, without a secret."""
        parts = urlsplit(self.reader.meta.endpoint_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    @property
    def is_amazon(self) -> bool:
        host = urlsplit(self.endpoint).hostname or ""
        return host.endswith((".amazonaws.com", ".amazonaws.com.cn"))

    @property
    def attempts(self) -> int:
        return self._patience.attempts

    @cached_property
    def reader(self) -> S3Client:
        """Return the client for requests that may be repeated."""
        return self._client(self._patience.attempts)

    @cached_property
    def writer(self) -> S3Client:
        """Return the client for requests that are sent exactly once."""
        return self._client(1)

    @property
    def is_renewed(self) -> bool:
        """Return whether our credentials are renewed, such as those of a role."""
        return credentials_are_renewed(self._session.get_credentials())

    @property
    def filesystem(self) -> FileSystem:
        """Return the server as a pyarrow filesystem for bulk data; another one once credentials were renewed.

        Its credentials are those of our clients, since pyarrow looks for its own elsewhere, and in another order. It
        cannot ask for encryption.
        """
        keys = current_credentials(self._session.get_credentials())
        if self._filesystem is None or self._filesystem[0] != keys:
            self._filesystem = keys, self._filesystem_with(keys)
        return self._filesystem[1]

    def _filesystem_with(self, keys: ReadOnlyCredentials | None) -> FileSystem:
        from pyarrow.fs import S3FileSystem

        options: dict[str, object] = {"region": self._region}
        if keys is not None:
            options |= {"access_key": keys.access_key, "secret_key": keys.secret_key, "session_token": keys.token}
        # Without an address, pyarrow always names buckets by host.
        if self._endpoint or self._addressing == "path" or not self.is_amazon:
            server = urlsplit(self.endpoint)
            options |= {"endpoint_override": server.netloc, "scheme": server.scheme}
        if self._certificates:
            options["tls_ca_file_path"] = self._certificates
        return S3FileSystem(
            **options,
            force_virtual_addressing=self._addressing == "virtual",
            connect_timeout=USUAL.connect_s,
            request_timeout=USUAL.read_s,
        )

    @property
    def addressing(self) -> str:
        """Return how buckets are named, wherever that was configured; "" where it is left to the endpoint."""
        return self._addressing

    def add_to(self, remote: RemoteEnvironment) -> None:
        """Add what reaches this server from another machine: its address, its certificates, and our credentials.

        Credentials are the present ones: temporary ones that are renewed here end there.
        """
        server = self._endpoint or (None if self.is_amazon else self.endpoint)
        remote.add({"AWS_ENDPOINT_URL_S3": server, "AWS_ENDPOINT_URL": None, "AWS_REGION": self._region})
        if self._certificates:
            remote.add_file("AWS_CA_BUNDLE", self._certificates)
        keys = current_credentials(self._session.get_credentials()) if is_driver_who_asks() else None
        if keys is not None:
            remote.is_renewed |= self.is_renewed
            remote.add({"AWS_ACCESS_KEY_ID": keys.access_key, "AWS_SECRET_ACCESS_KEY": keys.secret_key})
            remote.add({"AWS_SESSION_TOKEN": keys.token, "AWS_PROFILE": None, "AWS_DEFAULT_PROFILE": None})

    def _client(self, attempts: int) -> S3Client:
        # A server of one's own seldom has a name for each bucket.
        style = self._addressing or ("path" if self._endpoint else "auto")
        client: S3Client = self._session.client(
            "s3",
            region_name=self._region,
            endpoint_url=self._endpoint,
            config=Config(
                retries={"total_max_attempts": attempts, "mode": "standard"},
                connect_timeout=self._patience.connect_s,
                read_timeout=self._patience.read_s,
                max_pool_connections=POOL_CONNECTIONS,
                s3=cast("Any", {"addressing_style": style}),
                # Servers other than Amazon's may not know the newer checksums.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
        for operation in MAKES_AN_OBJECT:
            client.meta.events.register(f"before-parameter-build.s3.{operation}", self._settings.encrypt)
        for operation in _HAS_CONTENT:
            client.meta.events.register(f"before-call.s3.{operation}", _add_content_md5)
        return client


@cache
def _loader(data_path: str | None) -> Loader:
    """Return botocore's loader of service descriptions; one for each session costs 4/5 of a client's start."""
    return create_loader(data_path)


def _add_content_md5(params: dict[str, Any], **others: object) -> None:
    del others
    body = params["body"]
    digest = hashlib.md5(body.getvalue() if isinstance(body, io.BytesIO) else body, usedforsecurity=False).digest()
    params["headers"]["Content-MD5"] = base64.b64encode(digest).decode()
