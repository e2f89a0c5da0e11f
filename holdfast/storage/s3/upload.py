"""Multipart upload of an object while it is written."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from holdfast.storage.contract.parts import PartWriter
from holdfast.storage.s3.errors import s3_errors
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef


@contextlib.contextmanager
def upload(client: S3Client, bucket: str, key: str) -> Iterator[PartWriter]:
    """Yield a file; its bytes are the object once the block ends.

    After an error there is none.

    :param client: may repeat requests: a part that is sent again replaces itself
    """
    sending = _S3Upload(client, bucket, key)
    file = PartWriter(sending.send)
    try:
        yield file
        file.finish()
        sending.complete()
    except BaseException:
        sending.give_up()
        raise


class _S3Upload:
    """Requests of one upload.

    None is made before there is something to send.
    """

    def __init__(self, client: S3Client, bucket: str, key: str) -> None:
        self._client = client
        self._bucket = bucket
        self._key = key
        self._id: str | None = None
        self._parts: list[CompletedPartTypeDef] = []
        self._completing = False

    def send(self, part: bytes) -> None:
        number = len(self._parts) + 1
        with s3_errors("write", self._key, writes=True):
            if self._id is None:
                self._id = self._client.create_multipart_upload(Bucket=self._bucket, Key=self._key)["UploadId"]
            answer = self._client.upload_part(
                Bucket=self._bucket, Key=self._key, UploadId=self._id, PartNumber=number, Body=part
            )
        self._parts.append({"ETag": answer["ETag"], "PartNumber": number})

    def complete(self) -> None:
        """Complete the upload, so that the object appears."""
        self._completing = True
        with s3_errors("write", self._key, writes=True):
            if self._id is None:  # S3 knows no upload without parts
                self._client.put_object(Bucket=self._bucket, Key=self._key, Body=b"")
                return
            self._client.complete_multipart_upload(
                Bucket=self._bucket, Key=self._key, UploadId=self._id, MultipartUpload={"Parts": self._parts}
            )

    def give_up(self) -> None:
        """Remove everything that was sent, as far as the store allows."""
        with contextlib.suppress(StoreError), s3_errors("give up", self._key, writes=True):
            if self._id is not None:
                self._client.abort_multipart_upload(Bucket=self._bucket, Key=self._key, UploadId=self._id)
        with contextlib.suppress(StoreError), s3_errors("delete", self._key, writes=True):
            if self._completing:  # it may have been made, and only the answer lost
                self._client.delete_object(Bucket=self._bucket, Key=self._key)
