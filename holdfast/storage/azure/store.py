"""An object store in a container of Azure Blob Storage."""

from __future__ import annotations

import contextlib
import io
import uuid
from functools import partial
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from azure.core import MatchConditions
from azure.storage.blob import BlobBlock

from holdfast.common.remote_environment import needed
from holdfast.storage.azure.account import AzureAccount
from holdfast.storage.azure.errors import azure_errors
from holdfast.storage.contract import settings
from holdfast.storage.contract.connections import Connections, clock_of, named_certificates
from holdfast.storage.contract.keys import check_key, check_prefix, is_placeholder
from holdfast.storage.contract.object_store import ObjectChanged, ObjectStore, check_document
from holdfast.storage.contract.parts import AHEAD_BYTES, PartWriter, RangeReader
from holdfast.storage.contract.patience import SHORT, Patience
from locking.store import Listing, ObjectExists, ObjectInfo, ObjectNotFound, check_listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from azure.storage.blob import BlobClient, BlobProperties
    from pyarrow.fs import FileSystem


class AzureStore(ObjectStore):
    """Object store in a container of Azure Blob Storage: a block blob for each object.

    The account comes from the environment (:meth:`AzureAccount.from_environment`). Reads are tried again; a write is
    sent exactly once, because a repeated one may land when the caller has moved on. Accounts with a hierarchical
    namespace are not supported: their folders are listed as if they were objects.

    :param listing_is_ordered: whether the server's listing reads names in key order. Microsoft's does ("the operation
        returns entities in alphabetical order", Listing Blob Storage resources); any other counts as unordered.
    """

    clock_source = "the Date of the server's answers"

    def __init__(
        self,
        container: str,
        prefix: str = "",
        *,
        listing_is_ordered: bool | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.url = f"az://{container}/{prefix}".rstrip("/")
        self._name = container
        self._root = f"{check_key(prefix)}/" if prefix else ""
        self._account = AzureAccount.from_environment()
        self._connections = Connections(patience)
        self._container = self._account.container(container, self._connections)
        self._gate: Callable[[], None] | None = None
        self.endpoint = self._account.endpoint
        setting = settings.listing_is_ordered() if listing_is_ordered is None else listing_is_ordered
        self.listing_is_ordered = self._account.is_azure if setting is None else setting

    def impatient(self) -> AzureStore:
        return type(self)(
            self._name, self._root.rstrip("/"), listing_is_ordered=self.listing_is_ordered, patience=SHORT
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if (remote := needed()) is not None:
            self._account.add_to(remote)
            remote.add_own([settings.LISTING_ORDERED])
        return super().__reduce__()

    @classmethod
    def from_url(cls, url: str) -> AzureStore:
        parts = urlsplit(url)
        return cls(parts.netloc, parts.path.strip("/"))

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        start = self._root + check_prefix(prefix)
        return self._connections.patiently(lambda: self._list(prefix, start, self._root + start_after, most))

    def _list(self, prefix: str, start: str, after: str, most: int | None) -> Listing:
        with azure_errors("list", prefix, writes=False), self._connections.watch() as answers:
            blobs = self._container.list_blobs(name_starts_with=start or None)
            later = (blob for blob in blobs if blob.name > after)
            infos = self._infos(later if most is None else islice(later, most + 1))
        check_listed(prefix, len(infos), most)
        return Listing(tuple(sorted(infos, key=lambda info: info.key)), clock_of(answers))

    def first(self, prefix: str, count: int) -> tuple[ObjectInfo, ...]:
        start = self._root + check_prefix(prefix)

        def look() -> tuple[ObjectInfo, ...]:
            with azure_errors("list", prefix, writes=False):
                blobs = self._container.list_blobs(name_starts_with=start or None, results_per_page=count + 1)
                return tuple(self._infos(next(iter(blobs.by_page()), ()))[:count])

        return self._connections.patiently(look)

    def head(self, key: str) -> ObjectInfo:
        blob = self._blob(key)

        def look() -> ObjectInfo:
            with azure_errors("look at", key, writes=False):
                return self._info(blob.get_blob_properties())

        return self._connections.patiently(look)

    def get(self, key: str) -> bytes:
        blob = self._blob(key)

        def read() -> bytes:
            with azure_errors("read", key, writes=False):
                content = blob.download_blob()
                check_document(key, content.size)
                return content.readall()

        return self._connections.patiently(read)

    def put(self, key: str, body: bytes) -> None:
        with azure_errors("write", key, writes=True):
            self._blob(key).upload_blob(body, overwrite=True)

    def create(self, key: str, body: bytes) -> None:
        try:
            with azure_errors("create", key, writes=True), self._connections.hold(self._gate):
                self._blob(key).upload_blob(body, overwrite=True, match_condition=MatchConditions.IfMissing)
        except ObjectChanged:
            raise ObjectExists(f"{key} is there already.") from None

    def replace(self, key: str, body: bytes, etag: str) -> None:
        try:
            with azure_errors("replace", key, writes=True), self._connections.hold(self._gate):
                self._blob(key).upload_blob(
                    body, overwrite=True, etag=f'"{etag}"', match_condition=MatchConditions.IfNotModified
                )
        except ObjectChanged:
            self.head(key)  # raises ObjectNotFound for one that is gone
            raise

    def gated(self, gate: Callable[[], None]) -> AzureStore:
        # Not by copy(), which opens the URL again: the twin shares our connections.
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, _gate=gate)
        return twin

    def touch(self, key: str, body: bytes) -> None:
        self.put(key, body)

    def delete(self, key: str) -> None:
        with contextlib.suppress(ObjectNotFound), azure_errors("delete", key, writes=True):
            # A blob with snapshots cannot be deleted without them.
            self._blob(key).delete_blob(delete_snapshots="include")

    def filesystem(self) -> tuple[FileSystem, str]:
        if named_certificates() and self.endpoint.startswith("https:") and not self._account.is_azure:
            # pyarrow's client takes no authority; ours does.
            from holdfast.storage.contract.read_only import ReadOnly  # as in sealed_store.py

            return ReadOnly.over(self), ""
        return self._account.filesystem(), f"{self._name}/{self._root}".rstrip("/")

    @contextlib.contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        # Blocks are kept apart until they are committed; those that never are, Azure drops after a week. pyarrow's
        # stream would show an empty blob meanwhile, and complete it when it is dropped.
        blob = self._blob(key)
        attempt = uuid.uuid4().hex
        blocks: list[BlobBlock] = []

        def send(part: bytes) -> None:
            block = f"{attempt}-{len(blocks):06d}"
            self._connections.patiently(partial(self._stage, blob, key, block, part))
            blocks.append(BlobBlock(block))

        file = PartWriter(send)
        yield cast("IO[bytes]", file)
        file.finish()
        try:
            with azure_errors("write", key, writes=True):
                blob.commit_block_list(blocks, match_condition=MatchConditions.IfMissing)
        except ObjectChanged:
            raise ObjectExists(f"{key} is there already.") from None

    def open_read(self, key: str) -> IO[bytes]:
        blob = self._blob(key)
        info = self.head(key)

        def read(offset: int, length: int) -> bytes:
            with azure_errors("read", key, writes=False):
                return blob.download_blob(
                    offset, length, etag=f'"{info.etag}"', match_condition=MatchConditions.IfNotModified
                ).readall()

        file = RangeReader(info.size, lambda offset, length: self._connections.patiently(lambda: read(offset, length)))
        return io.BufferedReader(file, AHEAD_BYTES)

    @staticmethod
    def _stage(blob: BlobClient, key: str, block: str, part: bytes) -> None:
        with azure_errors("write", key, writes=False):
            blob.stage_block(block, part)

    def _blob(self, key: str) -> BlobClient:
        return self._container.get_blob_client(self._root + check_key(key))

    def _infos(self, blobs: Iterable[BlobProperties]) -> Sequence[ObjectInfo]:
        infos = (self._info(blob) for blob in blobs)
        return [info for info in infos if not is_placeholder(info.key)]

    def _info(self, blob: BlobProperties) -> ObjectInfo:
        return ObjectInfo(
            key=blob.name.removeprefix(self._root),
            size=blob.size,
            modified=blob.last_modified,
            etag=blob.etag.strip('"'),
        )
