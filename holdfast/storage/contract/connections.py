"""HTTP connections of the Azure and Google Cloud Storage clients, which are built on requests."""

from __future__ import annotations

import os
import re
import threading
from contextlib import contextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from requests.adapters import HTTPAdapter
from requests.exceptions import ConnectTimeout
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ProxyError

from holdfast.storage.contract.gated_body import GatedBody
from holdfast.storage.contract.patience import USUAL, Patience
from locking.store import StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from requests import PreparedRequest, Response

    from holdfast.common.remote_environment import RemoteEnvironment

T = TypeVar("T")

FIRST_PAUSE = 0.5  # seconds, at most, before the second try; doubles from try to try
POOL_CONNECTIONS = 32  # connections that threads sharing one store may use at once
CERTIFICATES = "REQUESTS_CA_BUNDLE"  # variable of requests for the file with certificates to trust
_NEVER_SENT = (NewConnectionError, ConnectTimeoutError, ProxyError)

# urllib3 says first which of its objects speaks.
_SPEAKER = re.compile(r"^\w+\(.*?\): ")

# A shared access signature in a query, and the session of a resumable upload, let anybody in who reads them.
_SECRETS = re.compile(r"\b(sig|upload_id)=[^&\s'\")]+")


class Connections(HTTPAdapter):
    """Connections for many threads, that send each request once.

    Each thread can look at the answers it gets, and can hold its requests back before their last byte.

    :param patience: of each request; None: as usual.
    """

    def __init__(self, patience: Patience | None = None) -> None:
        super().__init__(pool_maxsize=POOL_CONNECTIONS, max_retries=0)
        self._patience = patience
        self._thread = _Thread()

    @contextmanager
    def watch(self) -> Iterator[list[Response]]:
        """Yield a list that fills with this thread's answers."""
        answers: list[Response] = []
        self._thread.answers = answers
        try:
            yield answers
        finally:
            self._thread.answers = None

    @contextmanager
    def hold(self, gate: Callable[[], None] | None) -> Iterator[None]:
        """Call ``gate`` before the last byte of each body that this thread sends."""
        self._thread.gate = gate
        try:
            yield
        finally:
            self._thread.gate = None

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        if self._thread.gate is not None and isinstance(request.body, bytes):
            body = GatedBody(request.body, self._thread.gate)
            body.armed = True
            request.body = body
        if self._patience is not None:
            kwargs["timeout"] = (self._patience.connect_s, self._patience.read_s)
        response = super().send(request, *args, **kwargs)
        if self._thread.answers is not None:
            self._thread.answers.append(response)
        return response

    def patiently(self, request: Callable[[], T], repeat: Callable[[BaseException], bool] | None = None) -> T:
        """Make a request, and repeat it while `repeat` says so of its error; default: while unavailable."""
        attempts = (self._patience or USUAL).attempts
        retrying = Retrying(
            stop=stop_after_attempt(attempts),
            wait=wait_random_exponential(multiplier=FIRST_PAUSE, max=FIRST_PAUSE * 2**USUAL.attempts),
            retry=retry_if_exception(repeat or _is_unavailable),
            reraise=True,
        )
        return retrying(request)


class _Thread(threading.local):
    answers: list[Response] | None = None
    gate: Callable[[], None] | None = None


def never_sent(error: BaseException | None) -> bool:
    """Return whether an error of requests or urllib3 says that a request was never sent."""
    return isinstance(_innermost(error), (*_NEVER_SENT, ConnectTimeout))


def in_words(error: BaseException | None) -> str:
    """Return the text of a connection's error, without secrets."""
    return without_secrets(_SPEAKER.sub("", str(_innermost(error))))


def without_secrets(text: str) -> str:
    """Return the text of an answer, an error or a URL without what lets its reader in."""
    return _SECRETS.sub(r"\1=…", text)


def clock_of(answers: list[Response]) -> datetime:
    """Return the server's clock from the first good answer; StoreError: none has a valid Date."""
    for answer in answers:
        if answer.ok:
            return _date(answer.headers)
    raise StoreUnavailable("The listing had no answer.")


def add_certificates(remote: RemoteEnvironment) -> None:
    """Add the certificates that requests trusts to what tasks need elsewhere."""
    path = named_certificates()
    if path and Path(path).is_file():
        remote.add_file(CERTIFICATES, path)


def named_certificates() -> str | None:
    """Return the path with the certificates that requests trusts, if a variable names one."""
    return os.environ.get(CERTIFICATES) or os.environ.get("CURL_CA_BUNDLE") or None


def address_of(endpoint: str) -> str:
    """Return an endpoint without its user, password and query, which may be secrets."""
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def _innermost(error: BaseException | None) -> BaseException | None:
    """Return the error that urllib3 and requests have wrapped others around."""
    inner = getattr(error, "reason", None) or next(iter(getattr(error, "args", ())), None)
    return _innermost(inner) if isinstance(inner, BaseException) else error


def _is_unavailable(error: BaseException) -> bool:
    return isinstance(error, StoreUnavailable)


def _date(headers: Mapping[str, str]) -> datetime:
    try:
        return parsedate_to_datetime(headers["Date"]).astimezone(UTC)
    except (KeyError, ValueError) as error:
        raise StoreError("The server's answers carry no valid Date; leases need its clock.") from error
