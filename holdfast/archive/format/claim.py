"""Claim of a key in the store: it is created unless it exists, however often the store gives no answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from holdfast.archive.format.commits import parse_commit
from holdfast.common.errors import DamagedError, OutcomeUnknownError
from locking.store import ObjectExists, StoreOutcomeUnknown, StoreUnavailable

if TYPE_CHECKING:
    from holdfast.archive.format.model import ArchiveCommit
    from holdfast.storage import ObjectStore

ATTEMPTS = 8  # times that an object is offered to a store that does not answer


def claim(store: ObjectStore, key: str, body: bytes, *, signed: bool = False) -> bytes:
    """Create `key` unless it exists, and return what it holds; `signed`: both as another store has them signed."""
    create = store.create_signed if signed else store.create
    try:
        for attempt in Retrying(
            retry=retry_if_exception_type((StoreOutcomeUnknown, StoreUnavailable)),
            wait=wait_random_exponential(multiplier=0.2, max=10),
            stop=stop_after_attempt(ATTEMPTS),
            sleep=time.sleep,
            reraise=True,
        ):
            with attempt:
                try:
                    create(key, body)
                except ObjectExists:
                    found = store.read(key)
                    return found.signed if signed else found.body
    except (StoreOutcomeUnknown, StoreUnavailable) as error:
        raise OutcomeUnknownError(
            f"the store did not tell whether {key} was written ({error}). Look with 'holdfast status' before "
            "trying again; nothing was cleaned up."
        ) from error
    return body


def claim_commit(store: ObjectStore, key: str, body: bytes) -> ArchiveCommit:
    """Create a commit unless its number is taken, and return the one that has the number.

    :raises OutcomeUnknownError: no answer came, or an empty object is there: its write may still arrive.
    """
    try:
        return parse_commit(key, claim(store, key, body))
    except DamagedError as error:
        if store.bare.head(key).size:
            raise
        raise OutcomeUnknownError(
            f"whether {key} was made is not known: it is empty, so the store has refused its write or is still at it. "
            "Look with 'holdfast status' before trying again; nothing was cleaned up."
        ) from error
