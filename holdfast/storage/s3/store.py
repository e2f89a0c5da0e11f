"""An object store in a bucket of S3 or of a server that speaks its protocol."""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import time
from dataclasses import replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from botocore.exceptions import IncompleteReadError, ResponseStreamingError

from holdfast.common.errors import UsageError
from holdfast.common.remote_environment import needed
from holdfast.storage.contract.certificates import certificate_problem
from holdfast.storage.contract.gated_body import GatedBody, arm, skip_expect
from holdfast.storage.contract.keys import check_key, check_prefix, is_placeholder
from holdfast.storage.contract.object_store import Extended, ObjectChanged, ObjectStore, check_document
from holdfast.storage.contract.parts import TranslatingFile
from holdfast.storage.contract.patience import SHORT, Patience
from holdfast.storage.s3.access import MAKES_AN_OBJECT, S3Access
from holdfast.storage.s3.copy import MOST_BYTES, copy_object
from holdfast.storage.s3.delete import delete_all, keeps_versions
from holdfast.storage.s3.errors import s3_errors
from holdfast.storage.s3.lifecycle import harmful_lifecycle_rules
from holdfast.storage.s3.object_lock import ObjectLock, extend
from holdfast.storage.s3.renewed_file import RenewedFile
from holdfast.storage.s3.settings import SSE, S3Settings
from holdfast.storage.s3.upload import upload
from locking.store import (
    Listing,
    ObjectExists,
    ObjectInfo,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    check_listed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from mypy_boto3_s3.type_defs import ObjectTypeDef
    from pyarrow.fs import FileSystem

CREATE_ATTEMPTS = 5
"""How often a create is tried that the server says it did nothing for: a rival's was under way (409)."""

_TORN = (IncompleteReadError, ResponseStreamingError)
"""An answer that ended in its middle, which botocore leaves to who reads it."""

_NOT_THERE = ("NO_SUCH_KEY", "RESOURCE_NOT_FOUND")
"""What pyarrow's filesystem says of an object that went while it was read."""

_UNSAID = ("HTTP status 400", "HTTP status 403", "INVALID_OBJECT_STATE", "Failed to flush response stream")
"""Words of pyarrow's filesystem for an answer that it does not understand, or without a reason."""

CREATE_PAUSE = 0.05  # seconds, at most, before the second try of a create; doubles from try to try


class S3Store(ObjectStore):
    """Object store in a bucket of S3, or of a server with its protocol.

    Credentials, region and endpoint come from the usual ``AWS_*`` variables. Reads are retried by the SDK; a write is
    sent exactly once, because a repeated one may land when the caller has moved on. Only bulk data, each under a key of
    its own, is sent again.

    :param listing_is_ordered: whether the server's listing reads names in key order. Amazon's does; a server on top of
        a file system may not, so by default any other counts as unordered.
    :param settings: what else can be set; by default what the environment says. They are pickled with the store.
    """

    clock_source = "the Date of the server's answers"

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        listing_is_ordered: bool | None = None,
        settings: S3Settings | None = None,
        patience: Patience | None = None,
    ) -> None:
        settings = settings or S3Settings.from_environment()
        if listing_is_ordered is not None:
            settings = replace(settings, listing_is_ordered=listing_is_ordered)
        self.url = f"s3://{bucket}/{prefix}".rstrip("/")
        self._bucket = bucket
        self._prefix = prefix
        self._root = f"{check_key(prefix)}/" if prefix else ""
        self._settings = settings
        self._patience = patience
        self._access = S3Access(settings, patience)
        # A client of its own for writes: attempts are a property of the client.
        self._reader = self._access.reader
        self._writer = self._access.writer
        self._writer.meta.events.register_last("before-call.s3.PutObject", skip_expect)
        self._writer.meta.events.register("before-send.s3.PutObject", arm)
        self._lock = ObjectLock.parse(settings.object_lock)
        if self._lock is not None:
            add = functools.partial(self._lock.add, root=self._root)
            for client, operation in itertools.product((self._reader, self._writer), MAKES_AN_OBJECT):
                client.meta.events.register(f"before-parameter-build.s3.{operation}", add)
        self._gate: Callable[[], None] | None = None
        self._can_copy = True
        self.endpoint = self._access.endpoint
        ordered = settings.listing_is_ordered
        self.listing_is_ordered = self._access.is_amazon if ordered is None else ordered

    @classmethod
    def from_url(cls, url: str) -> S3Store:
        parts = urlsplit(url)
        return cls(parts.netloc, parts.path.strip("/"))

    def __reduce__(self) -> tuple[Any, ...]:
        settings = self._settings
        if (remote := needed()) is not None:
            self._access.add_to(remote)
            settings = replace(settings, addressing=self._access.addressing)
        made = functools.partial(type(self), settings=settings, patience=self._patience)
        return made, (self._bucket, self._prefix)

    def impatient(self) -> S3Store:
        return type(self)(self._bucket, self._prefix, settings=self._settings, patience=SHORT)

    @property
    def locks_objects(self) -> bool:
        return self._lock is not None

    def extend_locks(self, keys: Sequence[str]) -> Extended:
        if self._lock is None:
            return super().extend_locks(keys)
        extended = extend(self._reader, self._bucket, [self._key(key) for key in keys], self._lock)
        return extended._replace(failed={key.removeprefix(self._root): error for key, error in extended.failed.items()})

    def harmful_rules(self) -> tuple[str, ...]:
        return harmful_lifecycle_rules(self._reader, self._bucket, self._root)

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        pages = self._reader.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket,
            Prefix=self._root + check_prefix(prefix),
            StartAfter=self._root + start_after if start_after else "",
        )
        now: datetime | None = None
        infos: list[ObjectInfo] = []
        with s3_errors("list", prefix, writes=False):
            for page in pages:
                now = now or _date(page["ResponseMetadata"]["HTTPHeaders"])
                infos += self._infos(page.get("Contents", []))
                check_listed(prefix, len(infos), most)
        if now is None:
            raise StoreUnavailable(f"The listing of {prefix!r} had no answer.")
        return Listing(tuple(sorted(infos, key=lambda info: info.key)), now)

    def first(self, prefix: str, count: int) -> tuple[ObjectInfo, ...]:
        with s3_errors("list", prefix, writes=False):
            answer = self._reader.list_objects_v2(
                Bucket=self._bucket, Prefix=self._root + check_prefix(prefix), MaxKeys=count + 1
            )
        infos = self._infos(answer.get("Contents", []))
        return tuple(sorted(infos, key=lambda info: info.key)[:count])

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
            for _ in range(self._access.attempts - 1):
                with contextlib.suppress(*_TORN):
                    return self._read_whole(key)
            return self._read_whole(key)

    def _read_whole(self, key: str) -> bytes:
        answer = self._reader.get_object(Bucket=self._bucket, Key=self._key(key))
        check_document(key, answer["ContentLength"])
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
        # Not by copy(), which opens the URL again: the twin shares our connections.
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, _gate=gate)
        return twin

    def touch(self, key: str, body: bytes) -> None:
        self.put(key, body)

    def delete(self, key: str) -> None:
        with contextlib.suppress(ObjectNotFound), s3_errors("delete", key, writes=True):
            self._writer.delete_object(Bucket=self._bucket, Key=self._key(key))

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, StoreError]:
        """Remove objects for good, a thousand at a time, with every version; StoreDenied: those cannot be asked for."""
        errors = delete_all(self._reader, self._bucket, [self._key(key) for key in keys], versions=self._has_versions)
        return {key.removeprefix(self._root): error for key, error in errors.items()}

    def delete_each(self, keys: Sequence[str]) -> Mapping[str, StoreError]:
        errors = delete_all(self._writer, self._bucket, [self._key(key) for key in keys], versions=False)
        return {key.removeprefix(self._root): error for key, error in errors.items()}

    @functools.cached_property
    def _has_versions(self) -> bool:
        return keeps_versions(self._reader, self._bucket)

    def filesystem(self) -> tuple[FileSystem, str]:
        if self._settings.sse:
            raise UsageError(f"pyarrow would write to {self.url} without the encryption that {SSE} asks for.")
        if self._access.is_renewed:  # of pyarrow's own each file would keep the credentials that it was opened with
            from holdfast.storage.contract.read_only import (
                ReadOnly,  # pyarrow starts threads: see sparkjobs/executors/daemon.py
            )

            return ReadOnly.over(self), ""
        return self._access.filesystem, f"{self._bucket}/{self._root}".rstrip("/")

    def open_write(self, key: str) -> AbstractContextManager[IO[bytes]]:
        # Not pyarrow's stream: it knows no condition, and completes an upload that is only dropped.
        return cast("AbstractContextManager[IO[bytes]]", upload(self._reader, self._bucket, self._key(key)))

    def copy_from(self, source: ObjectStore, key: str, size: int, sha256: str) -> bool:
        if not (self._can_copy and isinstance(source, S3Store) and source.endpoint == self.endpoint):
            return False
        if not 0 < size <= MOST_BYTES:
            return False
        target, origin = (self._bucket, self._key(key)), (source._bucket, source._key(key))
        is_copied = copy_object(self._reader, self._writer, origin, target, sha256)
        if is_copied is None:  # nor is it asked again for each of many objects
            self._can_copy = False
        return bool(is_copied)

    def open_read(self, key: str) -> IO[bytes]:
        errors = functools.partial(_arrow_errors, key, functools.partial(self._look_why, key))
        with errors():
            file = RenewedFile(lambda: self._access.filesystem, f"{self._bucket}/{self._key(key)}")
        return cast("IO[bytes]", TranslatingFile(cast("IO[bytes]", file), errors))

    def _look_why(self, key: str) -> None:
        """Raise what the server says of a read, where it refuses one: pyarrow loses its words."""
        with s3_errors("read", key, writes=False):
            self._reader.get_object(Bucket=self._bucket, Key=self._key(key), Range="bytes=0-0")["Body"].close()

    def _body(self, body: bytes) -> bytes | GatedBody:
        return GatedBody(body, self._gate) if self._gate else body

    def _key(self, key: str) -> str:
        return self._root + check_key(key)

    def _infos(self, items: Iterable[ObjectTypeDef]) -> Sequence[ObjectInfo]:
        infos = (self._info(item) for item in items)
        return [info for info in infos if not is_placeholder(info.key)]

    def _info(self, item: ObjectTypeDef) -> ObjectInfo:
        return ObjectInfo(
            key=item["Key"].removeprefix(self._root),
            size=item["Size"],
            modified=item["LastModified"],
            etag=item["ETag"].strip('"'),
        )


def _date(headers: Mapping[str, str]) -> datetime:
    try:
        return parsedate_to_datetime(headers["date"]).astimezone(UTC)
    except (KeyError, ValueError) as error:
        raise StoreError("The S3 server's answers carry no valid Date; leases need its clock.") from error


@contextlib.contextmanager
def _arrow_errors(key: str, look_why: Callable[[], None]) -> Iterator[None]:
    """Turn errors of reads by pyarrow's filesystem into the store's; most come as OSError with a text.

    :param look_why: raises what is known better, where the text does not say what the server said.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError) or any(phrase in str(error) for phrase in _NOT_THERE):
            raise ObjectNotFound(f"{key} is not there.") from error
        if advice := certificate_problem(str(error), address="AWS_ENDPOINT_URL", file="AWS_CA_BUNDLE"):
            raise StoreError(f"Could not read {key!r}: the server cannot be trusted, {advice}.") from error
        is_denied = isinstance(error, PermissionError) or "ACCESS_DENIED" in str(error)
        if is_denied or any(phrase in str(error) for phrase in _UNSAID):
            look_why()
        if is_denied:
            raise StoreDenied(
                f"Not allowed to read {key!r}: {error} Check the AWS_* credentials and what they may do in this bucket."
            ) from error
        raise StoreUnavailable(f"Could not read {key!r} for certain: {error}") from error
