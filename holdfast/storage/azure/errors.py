"""Translation of Azure Blob errors into the store's, which say whether nothing was done, or it is unknown.

Sources: Microsoft's "Common REST API error codes" and "Blob Storage error codes", and where azure-core raises each of
its exceptions.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NoReturn

from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError

from holdfast.storage.contract.certificates import certificate_problem
from holdfast.storage.contract.connections import CERTIFICATES, in_words, never_sent, without_secrets
from holdfast.storage.contract.object_store import (
    ConditionNotSupported,
    ObjectArchived,
    ObjectChanged,
    throttled,
    without_answer,
)
from locking.store import (
    ObjectExists,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

# Refused before anything was done. A bare 503 may come from a proxy whose server went on.
_THROTTLED = {"ServerBusy", "TooManyRequests", "AccountBeingCreated", "ContainerBeingDeleted", "PendingCopyOperation"}
_TAKEN = {"BlobAlreadyExists"}
_OTHER_ETAG = {"ConditionNotMet", "TargetConditionNotMet", ""}
_ARCHIVED = {"BlobArchived", "BlobBeingRehydrated"}
_NO_CONTAINER = {"ContainerNotFound", "ContainerDisabled"}


@contextlib.contextmanager
def azure_errors(action: str, key: str, *, writes: bool) -> Iterator[None]:
    """Turn azure-core's errors of the block into the store's.

    The causes are not shown with them: their texts hold whole URLs, and those a shared access signature.

    :param action: what was tried, for the message: "read", "list", …
    :param writes: whether an answer that never came leaves the outcome unknown
    """
    try:
        yield
    except HttpResponseError as error:
        if error.status_code is not None:
            _raise_answer(action, key, error, error.status_code, writes=writes)
        if isinstance(error, ClientAuthenticationError):
            raise _denied(action, key, f"no Azure credentials could be used ({type(error).__name__})") from None
        raise without_answer(action, key, without_secrets(str(error)), writes=writes) from None
    except AzureError as error:
        why = in_words(error.inner_exception or error)
        if never_sent(error.inner_exception):
            raise StoreUnavailable(
                f"Could not {action} {key!r}: {why}. Check the account's name or endpoint and the network, then try "
                "again."
            ) from None
        advice = certificate_problem(why, address="AZURE_STORAGE_SERVICE_ENDPOINT", file=CERTIFICATES)
        if advice is not None:  # nothing was sent
            raise StoreError(f"Could not {action} {key!r}: the server cannot be trusted, {advice}.") from None
        raise without_answer(action, key, why, writes=writes) from None


def _raise_answer(action: str, key: str, error: HttpResponseError, status: int, *, writes: bool) -> NoReturn:
    code = _code(error)
    message = without_secrets(error.message).split("\n")[0]
    what = f"Could not {action} {key!r}: {message} (HTTP {status}, {code or 'no code'})."
    if code in _THROTTLED or status == 429:
        raise throttled(what, getattr(error.response, "headers", {})) from None
    if status in {401, 403}:
        raise _denied(action, key, f"{message} (HTTP {status}, {code or 'no code'})") from None
    if code in _ARCHIVED:
        raise ObjectArchived.in_class(
            action, key, "Archive", "az storage blob set-tier --tier Hot, which takes hours"
        ) from None
    if code in _NO_CONTAINER:
        raise StoreError(f"Could not {action} {key!r}: the container does not exist.") from None
    if status == 404:
        raise ObjectNotFound(f"{key} is not there.") from None
    if code in _TAKEN:
        raise ObjectExists(f"{key} is there already.") from None
    # A blob under a lease answers 412, too.
    if status == 412 and code in _OTHER_ETAG:
        raise ObjectChanged(f"{key} is not what it was.") from None
    if status == 501:
        raise ConditionNotSupported(what) from None
    if status >= 500 or status == 408:
        raise without_answer(action, key, f"{message} (HTTP {status}, {code or 'no code'})", writes=writes) from None
    raise StoreError(what) from None


def _code(error: HttpResponseError) -> str:
    code = getattr(error, "error_code", None) or ""
    return str(getattr(code, "value", code))


def _denied(action: str, key: str, why: str) -> StoreDenied:
    return StoreDenied(
        f"Could not {action} {key!r}: {why}. Check the AZURE_STORAGE_* variables, or who we are to Azure and its roles "
        "in this container."
    )
