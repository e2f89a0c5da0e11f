"""Trial of a store's listings: whether they read names in key order.

A lock's client writes a later name and then deletes an earlier one. A listing that is read in key order shows one of
both, whenever it comes; another listing may show none.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.storage.contract.object_store import ObjectStore


def key_order_misses(store: ObjectStore, prefix: str, keys: Sequence[str]) -> int:
    """Return how many clients a listing missed that moved from the first key to the last; each key is one try.

    :param keys: in their order, all below `prefix`; those between are there all the time, and make listings longer.
    """
    first, *between, last = keys
    for key in between:
        store.put(key, b"between")

    def move() -> None:
        store.put(last, b"moves")
        store.delete(first)

    missed = 0
    with ThreadPoolExecutor(1) as client:
        for _ in keys:
            store.put(first, b"moves")
            moved = client.submit(move)
            is_shown = True
            while is_shown and not moved.done():
                is_shown = any(info.key in (first, last) for info in store.list(prefix).objects)
            moved.result()
            missed += not is_shown
            store.delete(last)
    return missed
