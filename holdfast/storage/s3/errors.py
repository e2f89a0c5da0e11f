"""Translation of S3 errors into the store's.

Sources: Amazon S3's list of error responses, and where botocore raises each of its exceptions.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NoReturn

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
    ProxyConnectionError,
    SSLError,
)

from holdfast.storage.contract.certificates import certificate_problem
from holdfast.storage.contract.object_store import ConditionNotSupported, ObjectArchived, throttled, without_answer
from locking.store import (
    ObjectExists,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

# The request never reached the server.
_NEVER_SENT = (ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError)

_NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError)

# Refused by S3 itself before anything was done. A bare 503 may come from a proxy whose server went on.
_THROTTLED = {
    "SlowDown",
    "ServiceUnavailable",
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "RequestTimeout",
    "TooManyRequests",
    "429",
}
_ARCHIVED = {"InvalidObjectState", "ObjectNotInActiveTierError"}
_BRING_BACK = "aws s3api restore-object, or a copy of it in the class STANDARD"

_NOT_THERE = {"NoSuchKey", "NotFound", "404"}

_ENDED = (
    "Give credentials that are renewed, such as a profile's role or credential_process, instead of AWS_SESSION_TOKEN; "
    "on a cluster, let them live for longer than its longest task takes, or give workers a role of their own "
    "(HOLDFAST_WORKER_IDENTITY=own)."
)
_REMEDY = "Check the AWS_* credentials and what they may do in this bucket."
_REMEDIES = {
    **dict.fromkeys(("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"), _ENDED),
    "RequestTimeTooSkewed": "The clocks of this machine and of the store differ: set the wrong one.",
}
"""By the code of a refusal."""

# What these do not find is the bucket.
_NEED_NO_OBJECT = {"list", "write", "create"}


@contextlib.contextmanager
def s3_errors(action: str, key: str, *, writes: bool) -> Iterator[None]:
    """Turn botocore's errors of the block into the store's.

    :param action: what was tried, for the message: "read", "list", …
    :param writes: whether an answer that never came leaves the outcome unknown
    """
    try:
        yield
    except ClientError as error:
        _raise_answer(action, key, error, writes=writes)
    except _NO_CREDENTIALS as error:
        raise StoreDenied(
            f"Could not {action} {key!r}: no S3 credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        ) from error
    except _NEVER_SENT as error:
        raise StoreUnavailable(
            f"Could not {action} {key!r}: {error}. Check AWS_ENDPOINT_URL and the network, then try again."
        ) from error
    except BotoCoreError as error:
        _raise_distrust(action, key, error)
        raise without_answer(action, key, str(error), writes=writes) from error


def _raise_distrust(action: str, key: str, error: BotoCoreError) -> None:
    if isinstance(error, SSLError):
        advice = certificate_problem(str(error), address="AWS_ENDPOINT_URL", file="AWS_CA_BUNDLE")
        if advice is not None:
            endpoint = str(error.kwargs.get("endpoint_url", "")).partition("?")[0]
            raise StoreError(f"Could not {action} {key!r}: {endpoint} cannot be trusted, {advice}.") from error


def _raise_answer(action: str, key: str, error: ClientError, *, writes: bool) -> NoReturn:
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    code = error.response.get("Error", {}).get("Code", "")
    message = error.response.get("Error", {}).get("Message", "") or code
    what = f"Could not {action} {key!r}: {message} (HTTP {status}, {code})."
    if code in _THROTTLED or status == 409:
        raise throttled(what, error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})) from error
    if code in _ARCHIVED:
        storage_class = str(error.response.get("Error", {}).get("StorageClass", "")) or "of an archive"
        raise ObjectArchived.in_class(action, key, storage_class, _BRING_BACK) from error
    if status in {401, 403} or code in _REMEDIES:
        raise StoreDenied(f"{what} {_REMEDIES.get(code, _REMEDY)}") from error
    if code == "NoSuchBucket" or (code in _NOT_THERE and action in _NEED_NO_OBJECT):
        raise StoreError(
            f"Could not {action} {key!r}: the bucket does not exist. Check the archive's URL and AWS_ENDPOINT_URL; "
            "if it was deleted, what it held is gone."
        ) from error
    if code in _NOT_THERE:
        raise ObjectNotFound(f"{key} is not there.") from error
    if status == 412:
        raise ObjectExists(f"{key} is there already.") from error
    if status == 501:
        raise ConditionNotSupported(what) from error
    if status >= 500:
        raise without_answer(action, key, f"{message} (HTTP {status}, {code})", writes=writes) from error
    raise StoreError(what) from error
