"""An object of any size, sent in parts as it is written."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING

from holdfast.storage.s3_errors import s3_errors
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import ReadableBuffer
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

PART_BYTES = 16 << 20
"""Of each part but the last: what a file holds in memory, at most twice. S3 takes 10,000 parts."""


@contextlib.contextmanager
def upload(client: S3Client, bucket: str, key: str) -> Iterator[Upload]:
    """Yield a file; its bytes are the object once the block ends. After an error there is none.

    :param client: may repeat requests: a part that is sent again replaces itself
    """
    file = Upload(client, bucket, key)
    try:
        yield file
        file.finish()
    except BaseException:
        file.give_up()
        raise


class Upload(io.RawIOBase):
    """A binary file for writing. Closing it does not end it: its bytes may be half of what was to be written."""

    def __init__(self, client: S3Client, bucket: str, key: str) -> None:
        self._client = client
        self._bucket = bucket
        self._key = key
        self._waiting = bytearray()
        self._id: str | None = None
        self._parts: list[CompletedPartTypeDef] = []
        self._finishing = False

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            taken = view[done : done + PART_BYTES - len(self._waiting)]
            self._waiting += taken
            done += len(taken)
            if len(self._waiting) == PART_BYTES:
                with s3_errors("write", self._key, writes=True):
                    self._send_part()
        return done

    def finish(self) -> None:
        """Make the object."""
        self._finishing = True
        with s3_errors("write", self._key, writes=True):
            if self._id is None:
                self._client.put_object(Bucket=self._bucket, Key=self._key, Body=bytes(self._waiting))
                return
            if self._waiting:
                self._send_part()
            self._client.complete_multipart_upload(
                Bucket=self._bucket, Key=self._key, UploadId=self._id, MultipartUpload={"Parts": self._parts}
            )

    def give_up(self) -> None:
        """Remove what was sent, as far as the store allows."""
        with contextlib.suppress(StoreError), s3_errors("give up", self._key, writes=True):
            if self._id is not None:
                self._client.abort_multipart_upload(Bucket=self._bucket, Key=self._key, UploadId=self._id)
        with contextlib.suppress(StoreError), s3_errors("delete", self._key, writes=True):
            if self._finishing:  # it may have been made, and only the answer lost
                self._client.delete_object(Bucket=self._bucket, Key=self._key)

    def _send_part(self) -> None:
        if self._id is None:
            self._id = self._client.create_multipart_upload(Bucket=self._bucket, Key=self._key)["UploadId"]
        number = len(self._parts) + 1
        answer = self._client.upload_part(
            Bucket=self._bucket, Key=self._key, UploadId=self._id, PartNumber=number, Body=bytes(self._waiting)
        )
        self._parts.append({"ETag": answer["ETag"], "PartNumber": number})
        self._waiting.clear()
