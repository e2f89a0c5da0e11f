"""Copies of objects that the server makes itself, and that appear only with the expected bytes."""

from __future__ import annotations

import base64
import contextlib
import uuid
from typing import TYPE_CHECKING

from holdfast.storage.contract.object_store import ConditionNotSupported
from holdfast.storage.s3.errors import s3_errors
from holdfast.storage.s3.upload import ATTEMPT, made_by
from locking.store import ObjectNotFound, StoreError, StoreOutcomeUnknown, StoreUnavailable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

MOST_BYTES = 5 << 30
"""Larger ones take several parts, and their checksum is another one. Source: Amazon S3's limits of a part."""


def copy_object(
    client: S3Client, once: S3Client, source: tuple[str, str], target: tuple[str, str], sha256: str
) -> bool | None:
    """Copy an object on the server, as the only part of an upload that ends if its checksum is right.

    :param client: may repeat requests: a part that is sent again replaces itself.
    :param once: sends each request once.
    :param source: bucket and key; `target` likewise.
    :param sha256: of the object, in hex.
    :return: True: it is there; False: it is not, since other bytes or none were found, there was no time, or no answer;
        None: the server does not do this, or not for us.
    :raises ObjectExists: there is one already; nothing was changed.
    :raises StoreError: there was no answer, and it is not known whether it is there.
    """
    bucket, key = target
    upload, attempt = "", uuid.uuid4().hex
    try:
        with s3_errors("copy", key, writes=True):
            upload = client.create_multipart_upload(
                Bucket=bucket, Key=key, ChecksumAlgorithm="SHA256", Metadata={ATTEMPT: attempt}
            )["UploadId"]
            copied = client.upload_part_copy(
                Bucket=bucket,
                Key=key,
                UploadId=upload,
                PartNumber=1,
                CopySource={"Bucket": source[0], "Key": source[1]},
            )["CopyPartResult"]
    except StoreError as error:  # a caller that sends the bytes gets the whole error
        _give_up(client, bucket, key, upload)
        return False if isinstance(error, (ObjectNotFound, StoreUnavailable)) else None
    checksum = copied.get("ChecksumSHA256")
    if checksum is None or base64.b64decode(checksum).hex() != sha256:
        _give_up(client, bucket, key, upload)
        return None if checksum is None else False
    part: CompletedPartTypeDef = {"PartNumber": 1, "ETag": copied["ETag"], "ChecksumSHA256": checksum}
    try:
        with s3_errors("write", key, writes=True):
            once.complete_multipart_upload(
                Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": [part]}, IfNoneMatch="*"
            )
    except ConditionNotSupported:
        _give_up(client, bucket, key, upload)
        return None
    except StoreError as error:
        is_made = isinstance(error, StoreOutcomeUnknown) and made_by(client, bucket, key) == attempt
        if not is_made:
            _give_up(client, bucket, key, upload)
        if not isinstance(error, (StoreUnavailable, StoreOutcomeUnknown)):
            raise
        return is_made
    return True


def _give_up(client: S3Client, bucket: str, key: str, upload: str) -> None:
    if upload:
        with contextlib.suppress(StoreError), s3_errors("give up", key, writes=True):
            client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
