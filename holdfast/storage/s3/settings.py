"""Settings of S3 beside those that the AWS SDK reads itself.

The names of the encryptions are S3's own, those of the addressing styles botocore's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.common.errors import UsageError
from holdfast.storage.contract.settings import bad_setting, check_line_breaks, listing_is_ordered
from holdfast.storage.s3.object_lock import VARIABLE as OBJECT_LOCK
from holdfast.storage.s3.object_lock import ObjectLock

if TYPE_CHECKING:
    from collections.abc import Mapping

ADDRESSING = "HOLDFAST_S3_ADDRESSING"
SSE = "HOLDFAST_S3_SSE"
SSE_KMS_KEY_ID = "HOLDFAST_S3_SSE_KMS_KEY_ID"  # names of environment variables; empty counts as not set
_STYLES = ("auto", "path", "virtual")
_AES = "AES256"
_KMS = ("aws:kms", "aws:kms:dsse")


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Settings that travel with a store, so that Spark's tasks write as the driver does.

    :param addressing: whether a bucket is named by the "path" or the host ("virtual") of a request's URL, or what
        botocore holds for right ("auto"). Empty leaves it to the AWS config file's ``s3.addressing_style``, then to
        the endpoint: "path" for a server of one's own, which seldom has a name for each bucket, else "auto"
    :param sse: how the server is to encrypt all that is written: "AES256", "aws:kms" or "aws:kms:dsse"; empty leaves
        that to the bucket
    :param sse_kms_key_id: which key, with one of the last two; empty means the account's own for S3
    :param listing_is_ordered: whether listings read names in key order; None: Amazon's do, no others
    :param object_lock: how long what is written once cannot be deleted, such as "30d"; empty: no lock is asked for
    :raises UsageError: a value that is none
    """

    addressing: str = ""
    sse: str = ""
    sse_kms_key_id: str = ""
    listing_is_ordered: bool | None = None
    object_lock: str = ""

    def __post_init__(self) -> None:
        if self.addressing not in ("", *_STYLES):
            raise bad_setting(ADDRESSING, self.addressing, ", ".join(_STYLES))
        if self.sse not in ("", _AES, *_KMS):
            raise bad_setting(SSE, self.sse, ", ".join((_AES, *_KMS)))
        if self.sse_kms_key_id and self.sse not in _KMS:
            raise UsageError(f"{SSE_KMS_KEY_ID} is set, but not {SSE}=aws:kms that would use it.")
        ObjectLock.parse(self.object_lock)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> S3Settings:
        check_line_breaks("AWS_", environment)
        return cls(
            addressing=environment.get(ADDRESSING, ""),
            sse=environment.get(SSE, ""),
            sse_kms_key_id=environment.get(SSE_KMS_KEY_ID, ""),
            object_lock=environment.get(OBJECT_LOCK, ""),
            listing_is_ordered=listing_is_ordered(environment),
        )

    def encrypt(self, params: dict[str, object], **others: object) -> None:
        """Ask for encryption on botocore's event ``before-parameter-build`` of a request that makes an object."""
        del others
        if self.sse:
            params["ServerSideEncryption"] = self.sse
        if self.sse_kms_key_id:
            params["SSEKMSKeyId"] = self.sse_kms_key_id
