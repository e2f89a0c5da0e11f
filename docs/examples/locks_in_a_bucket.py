"""Locks in an S3 bucket: a store of one's own, for programs that need nothing else of Holdfast."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from locking.store import (
    Listing,
    ObjectInfo,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreOutcomeUnknown,
    StoreUnavailable,
    check_listed,
)

KINDS = {401: StoreDenied, 403: StoreDenied, 404: ObjectNotFound, 409: StoreUnavailable, 429: StoreUnavailable}


@contextlib.contextmanager
def errors(otherwise: type[StoreError]) -> Iterator[None]:
    """Say of each error whether the request can have had an effect: of most errors of a write that is not known."""
    try:
        yield
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        slow = error.response.get("Error", {}).get("Code") == "SlowDown"
        raise (StoreUnavailable if slow else KINDS.get(status, otherwise))(str(error)) from error
    except BotoCoreError as error:
        raise otherwise(str(error)) from error


class Bucket:
    """Store of locks in an S3 bucket."""

    listing_is_ordered = True  # of Amazon's S3; say False of a server that does not document it

    def __init__(self, name: str) -> None:
        # A write that the client repeats could come late.
        self._s3 = boto3.client("s3", config=Config(retries={"total_max_attempts": 1}, read_timeout=20))
        self._name = name

    def list(self, prefix: str, *, most: int | None = None) -> Listing:
        found: list[ObjectInfo] = []
        dates: list[str] = []
        with errors(StoreUnavailable):
            for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._name, Prefix=prefix):
                dates.append(page["ResponseMetadata"]["HTTPHeaders"]["date"])
                for each in page.get("Contents", []):
                    found.append(ObjectInfo(each["Key"], each["Size"], each["LastModified"], each["ETag"].strip('"')))
                check_listed(prefix, len(found), most)
        return Listing(tuple(found), parsedate_to_datetime(dates[0]))

    def get(self, key: str) -> bytes:
        with errors(StoreUnavailable):
            return bytes(self._s3.get_object(Bucket=self._name, Key=key)["Body"].read())

    def put(self, key: str, body: bytes) -> None:
        with errors(StoreOutcomeUnknown):
            self._s3.put_object(Bucket=self._name, Key=key, Body=body)

    touch = put

    def delete(self, key: str) -> None:
        with errors(StoreOutcomeUnknown):
            self._s3.delete_object(Bucket=self._name, Key=key)
