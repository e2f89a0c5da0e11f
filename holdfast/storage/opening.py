"""Opening of an archive's store, encrypted or not, signed or not."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.storage.encryption.signed_store import SignedStore
from holdfast.storage.url import open_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.common.signing import Signing
    from holdfast.storage.contract.object_store import ObjectStore


def open_store(url: str, key: str | None = None, signing: Signing | None = None) -> SignedStore:
    """Return the store of an archive, encrypted or not, signed or not; URL and errors as `open_url`.

    :param key: address of the key that opens the archive; None for what the environment's ``HOLDFAST_KEY`` says.
    :param signing: who signs what is written, and who is believed; None for what the environment says.
    """
    return SignedStore(open_url(url), key, signing)


def opener_like(store: ObjectStore) -> Callable[[str], SignedStore]:
    """Return an opener of replicas with this store's keys and signers."""
    return partial(open_store, key=store.key, signing=store.signing)
