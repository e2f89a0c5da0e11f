"""An object store in a bucket of S3 or of a server that speaks its protocol."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import IO, TYPE_CHECKING, cast
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from holdfast.storage.base import ObjectChanged, ObjectStore
from holdfast.storage.gated_body import GatedBody, arm, skip_expect
from holdfast.storage.keys import check_key, check_prefix
from holdfast.storage.s3_errors import s3_errors
from locking.store import (
    Listing,
    ObjectExists,
    ObjectInfo,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreOutcomeUnknown,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectTypeDef
    from pyarrow.fs import FileSystem

CONNECT_TIMEOUT = 5.0
"""Seconds to wait for a connection."""

READ_TIMEOUT = 30.0
"""Seconds to wait for the next bytes of an answer."""

READ_ATTEMPTS = 4
"""How often a request that changes nothing is tried."""

CREATE_ATTEMPTS = 5
"""How often a create is tried that the server says it did nothing for: a rival's was under way (409)."""

CREATE_PAUSE = 0.05
"""Seconds, at most, before the second try of a create; doubles from try to try."""

POOL_CONNECTIONS = 32
"""Connections that threads sharing one store may use at once."""


class S3Store(ObjectStore):
    """Each object is an object of the bucket, below the prefix.

    Credentials, region and endpoint come from the usual ``AWS_*`` variables. Reads are retried by the
    SDK; a write is sent exactly once, because a repeated one may land when the caller has moved on.

    :param listing_is_ordered: whether the server's listing reads names in key order. Amazon's does; a
        server on top of a file system may not, so by default any other counts as unordered.
    """

    clock_source = "the Date of the server's answers"

    def __init__(self, bucket: str, prefix: str = "", *, listing_is_ordered: bool | None = None) -> None:
        self.url = f"s3://{bucket}/{prefix}".rstrip("/")
        self._bucket = bucket
        self._root = f"{check_key(prefix)}/" if prefix else ""
        self._endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None
        session = boto3.session.Session()
        self._region = os.environ.get("AWS_REGION") or session.region_name or "us-east-1"
        # A client of its own for writes: attempts are a property of the client.
        self._reader = self._client(session, READ_ATTEMPTS)
        self._writer = self._client(session, 1)
        self._writer.meta.events.register_last("before-call.s3.PutObject", skip_expect)
        self._writer.meta.events.register("before-send.s3.PutObject", arm)
        self._gate: Callable[[], None] | None = None
        self.endpoint = _address(self._writer.meta.endpoint_url)
        self.listing_is_ordered = _is_amazon(self._endpoint) if listing_is_ordered is None else listing_is_ordered

    @classmethod
    def from_url(cls, url: str) -> S3Store:
        parts = urlsplit(url)
        return cls(parts.netloc, parts.path.strip("/"))

    def list(self, prefix: str, *, start_after: str = "") -> Listing:
        pages = self._reader.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket,
            Prefix=self._root + check_prefix(prefix),
            StartAfter=self._root + start_after if start_after else "",
        )
        now: datetime | None = None
        found: list[ObjectInfo] = []
        with s3_errors("list", prefix, writes=False):
            for page in pages:
                now = now or _date(page["ResponseMetadata"]["HTTPHeaders"])
                found += [self._info(item) for item in page.get("Contents", [])]
        if now is None:
            raise StoreUnavailable(f"The listing of {prefix!r} had no answer.")
        return Listing(tuple(sorted(found, key=lambda info: info.key)), now)

    def head(self, key: str) -> ObjectInfo:
        with s3_errors("look at", key, writes=False):
            answer = self._reader.head_object(Bucket=self._bucket, Key=self._key(key))
        return ObjectInfo(
            key=key,
            size=answer["ContentLength"],
            modified=answer["LastModified"],
            etag=answer["ETag"].strip('"'),
        )

    def get(self, key: str) -> bytes:
        with s3_errors("read", key, writes=False):
            answer = self._reader.get_object(Bucket=self._bucket, Key=self._key(key))
            return answer["Body"].read()

    def put(self, key: str, body: bytes) -> None:
        with s3_errors("write", key, writes=True):
            self._writer.put_object(Bucket=self._bucket, Key=self._key(key), Body=body)

    def create(self, key: str, body: bytes) -> None:
        for attempt in range(CREATE_ATTEMPTS):
            try:
                with s3_errors("create", key, writes=True):
                    self._writer.put_object(
                        Bucket=self._bucket, Key=self._key(key), Body=self._body(body), IfNoneMatch="*"
                    )
                return
            except StoreUnavailable:
                if attempt + 1 == CREATE_ATTEMPTS:
                    raise
                time.sleep(random.uniform(0, CREATE_PAUSE * 2**attempt))  # noqa: S311 - only spreads the tries

    def replace(self, key: str, body: bytes, etag: str) -> None:
        try:
            with s3_errors("replace", key, writes=True):
                self._writer.put_object(Bucket=self._bucket, Key=self._key(key), Body=self._body(body), IfMatch=etag)
        except ObjectExists as error:
            raise ObjectChanged(f"{key} is not what it was.") from error

    def gated(self, gate: Callable[[], None]) -> S3Store:
        # Not by copy(), which opens the URL anew: the twin shares our connections.
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, _gate=gate)
        return twin

    def touch(self, key: str, body: bytes) -> None:
        self.put(key, body)

    def delete(self, key: str) -> None:
        with contextlib.suppress(ObjectNotFound), s3_errors("delete", key, writes=True):
            self._writer.delete_object(Bucket=self._bucket, Key=self._key(key))

    def filesystem(self) -> tuple[FileSystem, str]:
        return self._filesystem, f"{self._bucket}/{self._root}".rstrip("/")

    @contextlib.contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        path = f"{self._bucket}/{self._key(key)}"
        with _arrow_errors("write", key, StoreOutcomeUnknown):
            file = self._filesystem.open_output_stream(path)
        try:
            yield cast("IO[bytes]", file)
        except BaseException:
            # pyarrow has no way to give an upload up: it completes it, also when it is only dropped.
            with contextlib.suppress(OSError, StoreError):
                file.close()
            with contextlib.suppress(StoreError):
                self.delete(key)
            raise
        with _arrow_errors("write", key, StoreOutcomeUnknown):
            file.close()

    def open_read(self, key: str) -> IO[bytes]:
        with _arrow_errors("read", key, StoreUnavailable):
            return cast("IO[bytes]", self._filesystem.open_input_file(f"{self._bucket}/{self._key(key)}"))

    @functools.cached_property
    def _filesystem(self) -> FileSystem:
        from pyarrow.fs import S3FileSystem

        options = {"region": self._region}
        if self._endpoint:
            server = urlsplit(self._endpoint)
            options |= {"endpoint_override": server.netloc, "scheme": server.scheme}
        if bundle := os.environ.get("AWS_CA_BUNDLE"):
            options["tls_ca_file_path"] = bundle
        return S3FileSystem(**options, connect_timeout=CONNECT_TIMEOUT, request_timeout=READ_TIMEOUT)

    def _body(self, body: bytes) -> bytes | GatedBody:
        return GatedBody(body, self._gate) if self._gate else body

    def _key(self, key: str) -> str:
        return self._root + check_key(key)

    def _info(self, item: ObjectTypeDef) -> ObjectInfo:
        return ObjectInfo(
            key=item["Key"].removeprefix(self._root),
            size=item["Size"],
            modified=item["LastModified"],
            etag=item["ETag"].strip('"'),
        )

    def _client(self, session: boto3.session.Session, attempts: int) -> S3Client:
        client: S3Client = session.client(
            "s3",
            region_name=self._region,
            endpoint_url=self._endpoint,
            config=Config(
                retries={"total_max_attempts": attempts, "mode": "standard"},
                connect_timeout=CONNECT_TIMEOUT,
                read_timeout=READ_TIMEOUT,
                max_pool_connections=POOL_CONNECTIONS,
                # A server of one's own seldom has a name for each bucket.
                s3={"addressing_style": "path" if self._endpoint else "auto"},
                # Servers other than Amazon's may not know the newer checksums.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
        return client


def _is_amazon(endpoint: str | None) -> bool:
    host = urlsplit(endpoint).hostname or "" if endpoint else "amazonaws.com"
    return host == "amazonaws.com" or host.endswith((".amazonaws.com", ".amazonaws.com.cn"))


def _address(endpoint: str) -> str:
    """An endpoint without the user and password that somebody may have written into it."""
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _date(headers: Mapping[str, str]) -> datetime:
    """The server's clock as its answer tells it."""
    try:
        return parsedate_to_datetime(headers["date"]).astimezone(UTC)
    except (KeyError, ValueError) as error:
        raise StoreError("The S3 server's answers carry no valid Date; leases need its clock.") from error


@contextlib.contextmanager
def _arrow_errors(action: str, key: str, otherwise: type[StoreError]) -> Iterator[None]:
    """Turn the errors of pyarrow's filesystem into the store's; most come as OSError with a text."""
    try:
        yield
    except FileNotFoundError as error:
        raise ObjectNotFound(f"{key} is not there.") from error
    except OSError as error:
        if isinstance(error, PermissionError) or "ACCESS_DENIED" in str(error):
            raise StoreDenied(f"Not allowed to {action} {key!r}: {error}") from error
        raise otherwise(f"Could not {action} {key!r} for certain: {error}") from error
