"""Opening of an archive's store, encrypted or not."""

from __future__ import annotations

from holdfast.storage.encryption.sealed_store import SealedStore
from holdfast.storage.url import open_place


def open_store(url: str, key: str | None = None) -> SealedStore:
    """Return the store of an archive, encrypted or not.

    Parameters and errors are those of `open_place`.

    :param key: address of the key that opens the archive; None for what the environment's ``HOLDFAST_KEY`` says.
    """
    return SealedStore(open_place(url), key)
