"""The claim of a key: created unless it exists; what the store does not tell is not known."""

from __future__ import annotations

import pytest

from holdfast.archive.format.claim import claim, claim_commit
from holdfast.archive.format.commits import commit_key
from holdfast.common.errors import DamagedError, OutcomeUnknownError
from locking.store import StoreOutcomeUnknown
from tests.support.no_waiting import no_waiting
from tests.support.stores.memory_store import MemoryStore

KEY = commit_key(1)


def test_what_is_there_is_returned() -> None:
    store = MemoryStore()
    assert claim(store, "archive.json", b"mine") == b"mine"
    assert claim(store, "archive.json", b"another") == b"mine"


@pytest.mark.parametrize("body", [b"", b"{"])
def test_a_commit_that_a_refused_write_has_left_empty_may_still_arrive(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    no_waiting(monkeypatch)
    store = MemoryStore()
    store.put(KEY, body)

    def refuse(key: str, body: bytes) -> None:
        if len(store.requests) < 3:
            store.requests.append("refused")
            raise StoreOutcomeUnknown("quota")
        MemoryStore.create(store, key, body)

    monkeypatch.setattr(store, "create", refuse)
    with pytest.raises(DamagedError if body else OutcomeUnknownError, match=r"0+1\.json"):
        claim_commit(store, KEY, b"bytes of mine")
