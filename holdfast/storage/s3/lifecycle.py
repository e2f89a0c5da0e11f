"""Lifecycle rules of a bucket that would move objects of an archive out of reach, or delete them.

Source: Amazon S3 user guide, 'Managing the lifecycle of objects' and 'Understanding S3 Glacier storage classes'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from holdfast.storage.s3.errors import s3_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client

_UNREADABLE: Final = ("GLACIER", "DEEP_ARCHIVE")
"""What is in these classes takes hours to come back; the others can be read at once."""

_NONE: Final = {"NoSuchLifecycleConfiguration", "NotImplemented", "MethodNotAllowed"}
"""No rules are there, or the server knows none."""


def harmful_lifecycle_rules(client: S3Client, bucket: str, root: str) -> tuple[str, ...]:
    """Return the rules of a bucket that move objects below a key out of reach, or delete them, in words.

    :param root: of the archive's keys in the bucket, with its slash; "" for the whole bucket.
    """
    with s3_errors("read the lifecycle rules of", bucket, writes=False):
        try:
            rules = client.get_bucket_lifecycle_configuration(Bucket=bucket).get("Rules", [])
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _NONE:
                return ()
            raise
    return tuple(words for rule in rules for words in _harms(dict(rule), root))


def _harms(rule: dict[str, Any], root: str) -> Iterator[str]:
    scope = rule.get("Filter", {})
    both = scope.get("And", {})
    if rule.get("Status") != "Enabled" or scope.get("Tag") or both.get("Tags"):  # what we write has no tags
        return
    prefix = rule.get("Prefix") or scope.get("Prefix") or both.get("Prefix") or ""
    if not (prefix.startswith(root) or root.startswith(prefix)):
        return
    name = f"rule {rule.get('ID', 'without a name')!r}"
    below = f"objects below {prefix!r}" if prefix else "all objects"
    for transition in rule.get("Transitions", ()):
        if transition.get("StorageClass") in _UNREADABLE:
            yield f"{name} moves {below} to {transition['StorageClass']} {_when(transition)}"
    expiration = rule.get("Expiration", {})
    if "Days" in expiration or "Date" in expiration:
        yield f"{name} deletes {below} {_when(expiration)}"


def _when(action: dict[str, Any]) -> str:
    return f"after {action['Days']} days" if "Days" in action else f"on {action.get('Date')}"
