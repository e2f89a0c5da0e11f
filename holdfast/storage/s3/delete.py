"""Deletion of many objects of a bucket, with all versions, by few requests.

Requests and answers: Amazon S3's API reference, DeleteObjects, ListObjectVersions, HeadObject.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from holdfast.common.side_by_side import do_side_by_side
from holdfast.storage.contract.object_store import ConditionNotSupported, ObjectRetained
from holdfast.storage.s3.errors import s3_errors
from locking.store import ObjectNotFound, StoreDenied, StoreError, StoreOutcomeUnknown, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ErrorTypeDef, ObjectIdentifierTypeDef

MOST_AT_ONCE = 1000  # objects that one request may name: S3's own limit
_ASKED_AT_ONCE = 8
_NOT_OFFERED = {"NotImplemented", "MethodNotAllowed", "501", "405"}
_GONE = {"NoSuchKey", "NoSuchVersion"}
_REFUSED = {"AccessDenied", "InvalidRequest", "ObjectLocked"}
_NOT_DONE = {"SlowDown", "ServiceUnavailable", "OperationAborted", "RequestTimeout", "Throttling"}


def keeps_versions(client: S3Client, bucket: str) -> bool:
    """Return whether a bucket keeps versions; StoreDenied: a guess could leave everything where it is."""
    try:
        with s3_errors("ask for the versioning of", bucket, writes=False):
            try:
                answer = client.get_bucket_versioning(Bucket=bucket)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in _NOT_OFFERED:
                    return False
                raise
    except StoreDenied as error:
        raise StoreDenied(f"{error} It takes s3:GetBucketVersioning to delete for good.") from error
    return answer.get("Status") in ("Enabled", "Suspended")


def delete_all(client: S3Client, bucket: str, keys: Sequence[str], *, versions: bool) -> dict[str, StoreError]:
    """Delete objects, or all their versions and markers, by a client that may repeat; return the errors by key."""
    objects, errors = _all_versions(client, bucket, keys) if versions else ([{"Key": key} for key in keys], {})
    for first in range(0, len(objects), MOST_AT_ONCE):
        for key, error in _delete(client, bucket, objects[first : first + MOST_AT_ONCE]):
            errors.setdefault(key, error)
    return errors


def _all_versions(
    client: S3Client, bucket: str, keys: Sequence[str]
) -> tuple[list[ObjectIdentifierTypeDef], dict[str, StoreError]]:
    """Return all versions of objects, and the errors by key: one listing for each folder."""
    folders: dict[str, set[str]] = {}
    for key in keys:
        folders.setdefault(key.rpartition("/")[0], set()).add(key)

    def look(folder: str) -> tuple[list[ObjectIdentifierTypeDef], dict[str, StoreError]]:
        asked = folders[folder]
        try:
            return [version for version in _versions(client, bucket, f"{folder}/") if version["Key"] in asked], {}
        except StoreError as error:
            return [], dict.fromkeys(asked, error)

    versions: list[ObjectIdentifierTypeDef] = []
    errors: dict[str, StoreError] = {}
    for some, failed in do_side_by_side(look, folders, at_once=_ASKED_AT_ONCE):
        versions += some
        errors |= failed
    return versions, errors


def _versions(client: S3Client, bucket: str, prefix: str) -> Iterator[ObjectIdentifierTypeDef]:
    with s3_errors("list", prefix, writes=False):
        for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
            for version in (*page.get("Versions", []), *page.get("DeleteMarkers", [])):
                yield {"Key": version["Key"], "VersionId": version["VersionId"]}


def _delete(
    client: S3Client, bucket: str, objects: Sequence[ObjectIdentifierTypeDef]
) -> Iterator[tuple[str, StoreError]]:
    try:
        with s3_errors("delete", f"{objects[0]['Key']} and {len(objects) - 1} more", writes=True):
            answer = client.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
    except ConditionNotSupported:
        yield from _delete_singly(client, bucket, objects)
        return
    except StoreError as error:
        yield from ((identifier["Key"], error) for identifier in objects)
        return
    failed = [failure for failure in answer.get("Errors", []) if failure.get("Code") not in _GONE]
    yield from do_side_by_side(
        lambda failure: (failure.get("Key", ""), _meaning(client, bucket, failure)), failed, at_once=_ASKED_AT_ONCE
    )


def _delete_singly(
    client: S3Client, bucket: str, objects: Sequence[ObjectIdentifierTypeDef]
) -> Iterator[tuple[str, StoreError]]:
    """Delete objects by one request for each, on servers that do not know the request for many."""

    def remove(identifier: ObjectIdentifierTypeDef) -> tuple[str, StoreError] | None:
        which: dict[str, Any] = {"Key": identifier["Key"]}
        if "VersionId" in identifier:
            which["VersionId"] = identifier["VersionId"]
        try:
            with suppress(ObjectNotFound), s3_errors("delete", identifier["Key"], writes=True):
                client.delete_object(Bucket=bucket, **which)
        except StoreDenied as error:
            refused: ErrorTypeDef = {**which, "Code": "AccessDenied", "Message": str(error)}  # type: ignore[typeddict-item]
            return identifier["Key"], _meaning(client, bucket, refused)
        except StoreError as error:
            return identifier["Key"], error
        return None

    yield from filter(None, do_side_by_side(remove, objects, at_once=_ASKED_AT_ONCE))


def _meaning(client: S3Client, bucket: str, failed: ErrorTypeDef) -> StoreError:
    code, key = failed.get("Code", ""), failed.get("Key", "")
    message = f"Could not delete {key!r}: {failed.get('Message') or code} ({code})."
    if code in _REFUSED:
        until, is_held = _retention(client, bucket, failed)
        if until:
            return ObjectRetained(
                f"{key} is kept by its object lock until {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC.", until
            )
        if is_held:
            return ObjectRetained(f"{key} is kept by a legal hold.")
        if "object lock" in message.lower():  # not every server says until when, and not to every user
            return ObjectRetained(f"{key} is kept by its object lock; until when is not known ({message})")
        return StoreDenied(f"{message} Deleting takes s3:DeleteObject, and of versions s3:DeleteObjectVersion.")
    if code in _NOT_DONE:
        return StoreUnavailable(message)
    return StoreOutcomeUnknown(message) if code == "InternalError" else StoreError(message)


def _retention(client: S3Client, bucket: str, failed: ErrorTypeDef) -> tuple[datetime | None, bool]:
    """Return the end of an object's lock, and whether it is held; neither where we may not ask."""
    which: dict[str, Any] = {"Key": failed.get("Key", "")}
    if failed.get("VersionId"):
        which["VersionId"] = failed["VersionId"]
    try:
        head = client.head_object(Bucket=bucket, **which)
    except (ClientError, BotoCoreError):
        return None, False
    until = head.get("ObjectLockRetainUntilDate")
    is_locked = until is not None and until > datetime.now(UTC)
    return until if is_locked else None, head.get("ObjectLockLegalHoldStatus") == "ON"
