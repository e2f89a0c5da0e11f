"""Stores of archives: one contract, a folder or a cloud's object storage behind it, chosen by URL.

Imports `common` and the contract of `locking`.
"""

from __future__ import annotations

from holdfast.storage.contract.keys import InvalidKey, check_key
from holdfast.storage.contract.object_store import (
    ConditionNotSupported,
    ObjectArchived,
    ObjectChanged,
    ObjectRetained,
    ObjectStore,
    StoreFull,
)
from holdfast.storage.encryption.sealed_store import SealedStore
from holdfast.storage.encryption.signed_store import open_store, opener_like
from holdfast.storage.folder import FolderStore
from holdfast.storage.url import open_url
from locking.store import (
    Listing,
    ObjectExists,
    ObjectInfo,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreOutcomeUnknown,
    StoreUnavailable,
)

__all__ = [
    "ConditionNotSupported",
    "FolderStore",
    "InvalidKey",
    "Listing",
    "ObjectArchived",
    "ObjectChanged",
    "ObjectExists",
    "ObjectInfo",
    "ObjectNotFound",
    "ObjectRetained",
    "ObjectStore",
    "SealedStore",
    "StoreDenied",
    "StoreError",
    "StoreFull",
    "StoreOutcomeUnknown",
    "StoreUnavailable",
    "check_key",
    "open_store",
    "open_url",
    "opener_like",
]
