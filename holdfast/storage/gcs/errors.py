"""Translation of Google Cloud Storage errors into the store's.

Sources: Google's "HTTP status and error codes for JSON" and "Retry strategy", and where its client raises each of its
exceptions.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, NoReturn

from google.api_core.exceptions import GoogleAPICallError, RetryError
from google.auth.exceptions import GoogleAuthError, RefreshError, TransportError
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from holdfast.storage.contract.certificates import certificate_problem
from holdfast.storage.contract.connections import CERTIFICATES, in_words, never_sent, without_secrets
from holdfast.storage.contract.object_store import ConditionNotSupported, ObjectChanged, throttled, without_answer
from locking.store import (
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from requests import Response

# urllib3's own come from where a download is read raw.
_ERRORS = (
    GoogleAPICallError,
    RetryError,
    InvalidResponse,
    DataCorruption,
    GoogleAuthError,
    RequestException,
    HTTPError,
    ConnectionError,
)


class Throttled(StoreUnavailable):
    """Request refused as one too many (an object may be written once a second): nothing was done."""


@contextlib.contextmanager
def gcs_errors(action: str, key: str, *, writes: bool, needs_object: bool = True) -> Iterator[None]:
    """Turn the client's errors of the block into the store's.

    The causes are not shown with them: their texts hold whole URLs, and those the session of an upload.

    :param action: what was tried, for the message: "read", "list", …
    :param writes: whether an answer that never came leaves the outcome unknown
    :param needs_object: whether "not found" may be said of the object; else it is the bucket that is missing
    """
    try:
        yield
    except _ERRORS as error:
        cause = error.cause if isinstance(error, RetryError) else error
        if isinstance(cause, (GoogleAPICallError, InvalidResponse)):
            _raise_answer(action, key, cause.response, writes=writes, needs_object=needs_object)
        _raise_silence(action, key, cause, writes=writes)


def _raise_silence(action: str, key: str, error: BaseException | None, *, writes: bool) -> NoReturn:
    why = in_words(error)
    what = f"Could not {action} {key!r}: {why}."
    # Of the request for a token; ours was not sent.
    if isinstance(error, TransportError) or (isinstance(error, RefreshError) and error.retryable):
        raise StoreUnavailable(what) from None
    if isinstance(error, GoogleAuthError):
        raise _denied(action, key, why) from None
    if never_sent(error):
        raise StoreUnavailable(f"{what} Check the network, then try again.") from None
    advice = certificate_problem(why, address="STORAGE_EMULATOR_HOST", file=CERTIFICATES)
    if advice is not None:  # nothing was sent
        raise StoreError(f"Could not {action} {key!r}: the server cannot be trusted, {advice}.") from None
    raise without_answer(action, key, why, writes=writes) from None


def _raise_answer(action: str, key: str, answer: Response, *, writes: bool, needs_object: bool) -> NoReturn:
    status, message = answer.status_code, _message(answer)
    what = f"Could not {action} {key!r}: {message} (HTTP {status})."
    if status == 429:
        raise throttled(what, answer.headers, Throttled) from None
    if status in {401, 403}:
        raise _denied(action, key, f"{message} (HTTP {status})") from None
    if status == 404 and (not needs_object or "bucket does not exist" in message):
        raise StoreError(f"Could not {action} {key!r}: the bucket does not exist.") from None
    if status == 404:
        raise ObjectNotFound(f"{key} is not there.") from None
    if status == 412:
        raise ObjectChanged(f"{key} is not what it was.") from None
    if status == 501:
        raise ConditionNotSupported(what) from None
    if status >= 500 or status == 408:
        raise without_answer(action, key, f"{message} (HTTP {status})", writes=writes) from None
    raise StoreError(what) from None


def _message(answer: Response) -> str:
    """Return the server's message: most answers are JSON; where a download fails, plain text."""
    text = answer.text.strip()
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
        text = json.loads(text)["error"]["message"]
    return without_secrets(text).split("\n")[0] or answer.reason or "no reason given"


def _denied(action: str, key: str, why: str) -> StoreDenied:
    return StoreDenied(
        f"Could not {action} {key!r}: {why}. Check GOOGLE_APPLICATION_CREDENTIALS, or who we are to Google and what "
        "that may do in this bucket."
    )
