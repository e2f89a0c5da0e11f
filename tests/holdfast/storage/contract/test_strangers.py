"""Objects that are not ours: left out, and named once."""

from __future__ import annotations

import pytest

from holdfast.storage.contract import strangers
from holdfast.storage.contract.strangers import without_strangers
from tests.support.stores.memory_store import MemoryStore


def test_strangers_are_left_out_and_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(strangers, "_warned", set())
    store = MemoryStore()
    for name in ("1.json", "2.json", *(f"stray-{number}" for number in range(9))):
        store.put(f"folder/{name}", b"")
    for _ in range(2):
        found = without_strangers("place", "folder/", store.list("folder/").objects, lambda key: key.endswith(".json"))
        assert [info.key for info in found] == ["folder/1.json", "folder/2.json"]
    assert [record.message for record in caplog.records] == [
        "Not of Holdfast, and ignored: folder/stray-0, folder/stray-1, folder/stray-2 and 6 more in place. "
        "Remove what is not needed."
    ]
