"""Object lock: no user can delete or replace what an archive needs for a while.

The lock is set with each object that is written once, and is extended while the archive needs the object. In the mode
*compliance* no user ends it sooner, not the account's owner either; in *governance*, a user with a right of its own.

Source: Amazon S3 user guide, 'Locking objects with Object Lock'.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from holdfast.common.side_by_side import do_side_by_side
from holdfast.storage.contract.object_store import Extended
from holdfast.storage.contract.settings import bad_setting
from holdfast.storage.s3.errors import s3_errors
from locking.store import ObjectNotFound, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from mypy_boto3_s3 import S3Client

VARIABLE: Final = "HOLDFAST_S3_OBJECT_LOCK"

LOCKED: Final = ("archive.json", "keys/", "commits/", "checkpoints/", "data/")
"""What is written once and needed for long; locks, records of jobs and probes have to go."""

_AT_ONCE: Final = 16
_FORM: Final = re.compile(r"(?:(compliance|governance):)?([1-9][0-9]{0,3})d")


@dataclass(frozen=True, slots=True)
class ObjectLock:
    """Object lock of everything that is written once."""

    period: timedelta  # how long, from the writing or the last extension on
    mode: Literal["COMPLIANCE", "GOVERNANCE"] = "COMPLIANCE"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the lock that a setting names; None where it is empty."""
        if not text:
            return None
        form = _FORM.fullmatch(text)
        if form is None:
            raise bad_setting(VARIABLE, text, "30d, compliance:30d, governance:30d, with any number of days")
        return cls(timedelta(days=int(form[2])), "GOVERNANCE" if form[1] == "governance" else "COMPLIANCE")

    def parameters(self) -> dict[str, Any]:
        return {"ObjectLockMode": self.mode, "ObjectLockRetainUntilDate": datetime.now(UTC) + self.period}

    def add(self, params: dict[str, Any], *, root: str, **others: object) -> None:
        """Ask for the lock on botocore's event ``before-parameter-build`` of a request that makes an object."""
        del others
        if str(params.get("Key", "")).removeprefix(root).startswith(LOCKED):
            params.update(self.parameters())


def extend(client: S3Client, bucket: str, keys: Sequence[str], lock: ObjectLock) -> Extended:
    """Extend the locks of keys in the bucket that end before half of their period."""
    now = datetime.now(UTC)

    def look(key: str) -> StoreError | bool:
        try:
            with s3_errors("look at the lock of", key, writes=False):
                until = client.head_object(Bucket=bucket, Key=key).get("ObjectLockRetainUntilDate")
            if until is not None and until > now + lock.period / 2:
                return False
            with s3_errors("extend the lock of", key, writes=True):
                client.put_object_retention(
                    Bucket=bucket,
                    Key=key,
                    Retention={"Mode": lock.mode, "RetainUntilDate": now + lock.period},
                )
        except ObjectNotFound:  # a vacuum was here, or it is missing, which a verification reports
            return False
        except StoreError as error:
            return error
        return True

    results = dict(zip(keys, do_side_by_side(look, keys, at_once=_AT_ONCE), strict=True))
    failed = {key: error for key, error in results.items() if isinstance(error, StoreError)}
    return Extended(len(results), sum(result is True for result in results.values()), failed)
