"""An object store in a bucket of Google Cloud Storage."""

from __future__ import annotations

import contextlib
import functools
import io
import os
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from google.cloud.storage import Client
from google.cloud.storage.fileio import BlobWriter
from google.cloud.storage.retry import DEFAULT_RETRY

from holdfast.common.remote_environment import is_driver_who_asks, needed
from holdfast.storage.contract import settings
from holdfast.storage.contract.connections import Connections, add_certificates, address_of, clock_of
from holdfast.storage.contract.keys import check_key, check_prefix, is_placeholder
from holdfast.storage.contract.object_store import ObjectChanged, ObjectStore
from holdfast.storage.contract.parts import AHEAD_BYTES, PART_BYTES, PartWriter, RangeReader
from holdfast.storage.contract.patience import SHORT, USUAL, Patience
from holdfast.storage.gcs.errors import Throttled, gcs_errors
from locking.store import Listing, ObjectExists, ObjectInfo, ObjectNotFound, StoreError, check_listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from google.cloud.storage import Blob, Bucket
    from pyarrow.fs import FileSystem

ONCE = {"timeout": (USUAL.connect_s, USUAL.read_s), "retry": None}
"""How the client sends every request; what may be tried again, we try again."""

LISTED = "items(name,size,timeCreated,generation),nextPageToken"

PART_PATIENCE = 60.0  # seconds for which a part of a large object is sent again
GOOGLE = "https://storage.googleapis.com"

CREDENTIALS = "GOOGLE_APPLICATION_CREDENTIALS"

_USUAL = "application_default_credentials.json"
"""File that `gcloud auth application-default login` writes.

Source: Google Cloud, 'How Application Default Credentials works'.
"""


class GcsStore(ObjectStore):
    """Object store in a bucket of Google Cloud Storage; an object's generation is its etag.

    Credentials are those that google-auth finds; ``STORAGE_EMULATOR_HOST`` leads to an emulator, without any. Reads are
    tried again. A write is sent exactly once, because a repeated one may land when the caller has moved on; but again
    where the server refused it as one too many.

    :param listing_is_ordered: whether the server's listing reads names in key order. Google's does ("ordered in the
        list lexicographically by name", List objects); any other counts as unordered.
    """

    clock_source = "the Date of the server's answers"

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        listing_is_ordered: bool | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.url = f"gs://{bucket}/{prefix}".rstrip("/")
        self._name = bucket
        self._root = f"{check_key(prefix)}/" if prefix else ""
        settings.check_line_breaks("GOOGLE_")
        self._emulator = os.environ.get("STORAGE_EMULATOR_HOST", "")
        self._connections = Connections(patience)
        self._gate: Callable[[], None] | None = None
        self.endpoint = address_of(self._emulator or GOOGLE)
        setting = settings.listing_is_ordered() if listing_is_ordered is None else listing_is_ordered
        self.listing_is_ordered = not self._emulator if setting is None else setting

    def impatient(self) -> GcsStore:
        return type(self)(
            self._name, self._root.rstrip("/"), listing_is_ordered=self.listing_is_ordered, patience=SHORT
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if (remote := needed()) is not None:
            add_certificates(remote)
            remote.add_own([settings.LISTING_ORDERED])
            remote.add({"STORAGE_EMULATOR_HOST": self._emulator or None})
            if not self._emulator and is_driver_who_asks() and (path := _credentials_file()):
                remote.add_file(CREDENTIALS, path)
        return super().__reduce__()

    @classmethod
    def from_url(cls, url: str) -> GcsStore:
        parts = urlsplit(url)
        return cls(parts.netloc, parts.path.strip("/"))

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        start = self._root + check_prefix(prefix)
        return self._connections.patiently(
            lambda: self._list(prefix, start, self._root + start_after if start_after else "", most)
        )

    def _list(self, prefix: str, start: str, after: str, most: int | None) -> Listing:
        errors = gcs_errors("list", prefix, writes=False, needs_object=False)
        with errors, self._connections.watch() as answers:
            blobs = self._bucket.list_blobs(prefix=start or None, start_offset=after or None, fields=LISTED, **ONCE)
            # The offset itself is listed, too.
            later = (blob for blob in blobs if blob.name > after)
            infos = self._infos(later if most is None else islice(later, most + 1))
        check_listed(prefix, len(infos), most)
        return Listing(tuple(sorted(infos, key=lambda info: info.key)), clock_of(answers))

    def first(self, prefix: str, count: int) -> tuple[ObjectInfo, ...]:
        start = self._root + check_prefix(prefix)

        def look() -> tuple[ObjectInfo, ...]:
            with gcs_errors("list", prefix, writes=False, needs_object=False):
                blobs = self._bucket.list_blobs(prefix=start or None, max_results=count + 1, fields=LISTED, **ONCE)
                return tuple(self._infos(blobs)[:count])

        return self._connections.patiently(look)

    def head(self, key: str) -> ObjectInfo:
        path = self._path(key)

        def look() -> ObjectInfo:
            with gcs_errors("look at", key, writes=False):
                blob = self._bucket.blob(path)
                blob.reload(**ONCE)
                return self._info(blob)

        return self._connections.patiently(look)

    def get(self, key: str) -> bytes:
        path = self._path(key)
        return self._connections.patiently(lambda: self._read(key, path))

    def _read(self, key: str, path: str, generation: int | None = None, **part: int) -> bytes:
        with gcs_errors("read", key, writes=False):
            # Raw: as it was written, also where the object was given a Content-Encoding.
            blob = self._bucket.blob(path, generation=generation)
            content: bytes = blob.download_as_bytes(raw_download=True, **part, **ONCE)
        return content

    def put(self, key: str, body: bytes) -> None:
        self._upload("write", key, body)

    def create(self, key: str, body: bytes) -> None:
        try:
            self._upload("create", key, body, if_generation_match=0)
        except ObjectChanged:
            raise ObjectExists(f"{key} is there already.") from None

    def replace(self, key: str, body: bytes, etag: str) -> None:
        try:
            self._upload("replace", key, body, if_generation_match=int(etag))
        except ObjectChanged:
            self.head(key)  # raises ObjectNotFound for one that is gone
            raise

    def gated(self, gate: Callable[[], None]) -> GcsStore:
        # Not by copy(), which opens the URL again: the twin shares our connections.
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, _bucket=self._bucket, _gate=gate)
        return twin

    def touch(self, key: str, body: bytes) -> None:
        self.put(key, body)

    def delete(self, key: str) -> None:
        path = self._path(key)

        def remove() -> None:
            with gcs_errors("delete", key, writes=True):
                self._bucket.blob(path).delete(**ONCE)

        with contextlib.suppress(ObjectNotFound):
            self._connections.patiently(remove, _is_throttled)

    def filesystem(self) -> tuple[FileSystem, str]:
        from pyarrow.fs import GcsFileSystem

        server = urlsplit(self._emulator)
        options = {"anonymous": True, "scheme": server.scheme, "endpoint_override": server.netloc}
        return GcsFileSystem(**(options if self._emulator else {})), f"{self._name}/{self._root}".rstrip("/")

    @contextlib.contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        # A resumable upload shows nothing before it is complete, and what it is sent twice it takes once.
        upload = _GcsUpload(
            self._bucket.blob(self._path(key)),
            chunk_size=PART_BYTES,
            retry=DEFAULT_RETRY.with_timeout(PART_PATIENCE),
            timeout=ONCE["timeout"],
            if_generation_match=0,
        )

        def send(part: bytes) -> None:
            with gcs_errors("write", key, writes=False, needs_object=False):
                upload.write(part)

        file = PartWriter(send)
        try:
            yield cast("IO[bytes]", file)
            file.finish()
            with gcs_errors("write", key, writes=True, needs_object=False):
                upload.close()
        except BaseException as error:
            with contextlib.suppress(StoreError), gcs_errors("give up", key, writes=True):
                upload.terminate()
            if isinstance(error, ObjectChanged):
                raise ObjectExists(f"{key} is there already.") from None
            raise

    def open_read(self, key: str) -> IO[bytes]:
        path = self._path(key)
        info = self.head(key)

        def read(offset: int, length: int) -> bytes:
            last = offset + length - 1
            return self._connections.patiently(lambda: self._read(key, path, int(info.etag), start=offset, end=last))

        return io.BufferedReader(RangeReader(info.size, read), AHEAD_BYTES)

    def _upload(self, action: str, key: str, body: bytes, **condition: int) -> None:
        path = self._path(key)

        def send() -> None:
            errors = gcs_errors(action, key, writes=True, needs_object=False)
            with errors, self._connections.hold(self._gate):
                self._bucket.blob(path).upload_from_string(body, "application/octet-stream", **condition, **ONCE)

        self._connections.patiently(send, _is_throttled)

    @functools.cached_property
    def _bucket(self) -> Bucket:
        """Return the bucket of a client made on first use: it looks for credentials, also on the network."""
        with gcs_errors("ask for", self._name, writes=False):
            client = Client(project=None)  # a bucket's objects need none
        for scheme in ("https://", "http://"):
            client._http.mount(scheme, self._connections)
        # For traces, it would ask for the bucket from a thread of its own.
        client._bucket_metadata_cache = None
        return client.bucket(self._name)

    def _path(self, key: str) -> str:
        return self._root + check_key(key)

    def _infos(self, blobs: Iterable[Blob]) -> Sequence[ObjectInfo]:
        infos = (self._info(blob) for blob in blobs)
        return [info for info in infos if not is_placeholder(info.key)]

    def _info(self, blob: Blob) -> ObjectInfo:
        # Not "updated", which changes with the metadata, too.
        return ObjectInfo(
            key=blob.name.removeprefix(self._root),
            size=blob.size,
            modified=blob.time_created,
            etag=str(blob.generation),
        )


class _GcsUpload(BlobWriter):  # type: ignore[misc]  # it has no types
    def __del__(self) -> None:
        """Leave an upload as it is when its file is dropped, where BlobWriter would complete it."""


def _credentials_file() -> str | None:
    """Return the path of the file with our credentials, as google-auth looks for it; None where there is none."""
    usual = Path(os.environ.get("CLOUDSDK_CONFIG") or "~/.config/gcloud").expanduser() / _USUAL
    return os.environ.get(CREDENTIALS) or (str(usual) if usual.exists() else None)


def _is_throttled(error: BaseException) -> bool:
    return isinstance(error, Throttled)
