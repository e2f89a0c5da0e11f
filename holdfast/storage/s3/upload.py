"""Upload of an object while it is written; the last request creates it only if its key is free.

Source: Amazon S3 user guide, 'conditional writes'.
"""

from __future__ import annotations

import contextlib
import uuid
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from holdfast.storage.contract.object_store import ConditionNotSupported
from holdfast.storage.contract.parts import PartWriter
from holdfast.storage.s3.errors import s3_errors
from locking.store import ObjectExists, ObjectNotFound, StoreError, StoreOutcomeUnknown, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

MOST_UNDER_WAY = 2
"""Parts that are sent while the next one is written; each is in memory until it is stored."""

END_TRIES = 5
"""How often the last request is sent where an earlier try of it is still under way (409)."""

ATTEMPT = "holdfast-attempt"
"""Metadata by which an object of this upload differs from one of another.

An etag would not do: it is no checksum where the server encrypts with a key of its own.
"""

_FREE: dict[str, Any] = {"IfNoneMatch": "*"}


@contextlib.contextmanager
def upload(client: S3Client, bucket: str, key: str) -> Iterator[PartWriter]:
    """Yield a file; its bytes are the object once the block ends; after an error there is none.

    What is there under this key already is never changed, nor deleted.

    :param client: may repeat requests: a part that is sent again replaces itself, and an object that an earlier try of
        the last request has made is known.
    :raises ObjectExists: the key was taken
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


def made_by(client: S3Client, bucket: str, key: str) -> str | None:
    """Return the attempt that made an object; None: there is none, or another program made it."""
    try:
        with s3_errors("look at", key, writes=False):
            return client.head_object(Bucket=bucket, Key=key)["Metadata"].get(ATTEMPT)
    except ObjectNotFound:
        return None


class _S3Upload:
    """Requests of one upload; what fits into one part is one request."""

    def __init__(self, client: S3Client, bucket: str, key: str) -> None:
        self._client = client
        self._bucket = bucket
        self._key = key
        self._attempt = uuid.uuid4().hex
        self._first = b""
        self._id = ""
        self._number = 0
        self._parts: list[CompletedPartTypeDef] = []
        self._under_way: deque[Future[CompletedPartTypeDef]] = deque()
        self._pool = ThreadPoolExecutor(MOST_UNDER_WAY)  # its threads start with the first part

    def send(self, part: bytes) -> None:
        """Begin to send a part; the first one waits for a second."""
        if not (self._id or self._first):
            self._first = part
            return
        if not self._id:
            self._begin()
            self._send(self._first)
            self._first = b""
        self._send(part)

    def _begin(self) -> None:
        with s3_errors("write", self._key, writes=True):
            self._id = self._client.create_multipart_upload(
                Bucket=self._bucket, Key=self._key, Metadata={ATTEMPT: self._attempt}
            )["UploadId"]

    def _send(self, part: bytes) -> None:
        self._settle(MOST_UNDER_WAY - 1)
        self._number += 1
        self._under_way.append(self._pool.submit(self._store_part, self._number, part))

    def _store_part(self, number: int, part: bytes) -> CompletedPartTypeDef:
        with s3_errors("write", self._key, writes=True):
            answer = self._client.upload_part(
                Bucket=self._bucket, Key=self._key, UploadId=self._id, PartNumber=number, Body=part
            )
        return {"ETag": answer["ETag"], "PartNumber": number}

    def _settle(self, most: int) -> None:
        while len(self._under_way) > most:
            self._parts.append(self._under_way.popleft().result())

    def complete(self) -> None:
        self._settle(0)
        self._create(self._join if self._id else self._put)
        self._pool.shutdown()

    def _put(self, **condition: Any) -> None:
        self._client.put_object(
            Bucket=self._bucket, Key=self._key, Body=self._first, Metadata={ATTEMPT: self._attempt}, **condition
        )

    def _join(self, **condition: Any) -> None:
        self._client.complete_multipart_upload(
            Bucket=self._bucket,
            Key=self._key,
            UploadId=self._id,
            MultipartUpload={"Parts": self._parts},
            **condition,
        )

    def _create(self, request: Callable[..., None]) -> None:
        for number in range(1, END_TRIES + 1):
            try:
                with s3_errors("write", self._key, writes=True):
                    request(**_FREE)
                return
            except ConditionNotSupported:
                # Of this request, or of all: a data file's name is that of one attempt, so it needs no condition.
                with s3_errors("write", self._key, writes=True):
                    request()
                return
            except StoreError as error:
                # The SDK repeats what had no answer: this may be the answer to the second of two.
                if self._is_made(error):
                    return
                if number == END_TRIES or not isinstance(error, StoreUnavailable):
                    raise

    def _is_made(self, error: StoreError) -> bool:
        """Return whether the object is there, and is this upload's; StoreOutcomeUnknown: it is not known whose."""
        try:
            return made_by(self._client, self._bucket, self._key) == self._attempt
        except StoreError as unseen:
            if isinstance(error, ObjectExists):
                raise StoreOutcomeUnknown(f"{self._key} is there, and it is not known who made it: {unseen}") from error
            return False

    def give_up(self) -> None:
        """Remove the parts that were sent, as far as the store allows."""
        self._pool.shutdown(cancel_futures=True)
        with contextlib.suppress(StoreError), s3_errors("give up", self._key, writes=True):
            if self._id:
                self._client.abort_multipart_upload(Bucket=self._bucket, Key=self._key, UploadId=self._id)
