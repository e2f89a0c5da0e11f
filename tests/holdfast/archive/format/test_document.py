"""Documents that carry a right checksum, and values with which nothing can be reckoned: somebody has forged them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.format.checksum import add_checksum
from holdfast.archive.format.commits import commit_key
from holdfast.archive.format.model import ArchiveCommit
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import DamagedError
from tests.support.stores.memory_store import MemoryStore

KEY = commit_key(1)


@pytest.fixture
def store() -> MemoryStore:
    """An archive with one backup."""
    made = MemoryStore()
    archive = Archive.create(made, name="shop")
    block = make_block(identity="b1", position="0/100")
    archive.add(lambda state: Change(kind="backup", add=(block,)), check=lambda: None, fence=None)
    return made


def forge(store: MemoryStore, change: Callable[[dict[str, Any]], None]) -> bytes:
    """Change the commit, and give it a checksum that is right."""
    document = json.loads(store.get(KEY))
    del document["checksum"]
    change(document)
    body = add_checksum(json.dumps(document, indent=1).encode())
    store.put(KEY, body)
    return body


def put(value: object, *place: str | int) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        *above, last = place
        holder: Any = document
        for name in above:
            holder = holder[name]
        holder[last] = value

    return change


FORGED: dict[str, Callable[[dict[str, Any]], None]] = {
    "no position": put("1/", "add", 0, "covers", "to_position"),
    "a position of letters": put("x/y", "add", 0, "covers", "to_position"),
    "a position of five thousand digits": put("0/" + "F" * 5000, "add", 0, "covers", "to_position"),
    "a time before any zone": put("0001-01-01T00:00:00+14:00", "committed_at"),
    "a time behind which there is none": put("9999-12-31T23:59:59Z", "add", 0, "covers", "to_time"),
    "a time without a zone": put("2026-03-01T00:00:00", "committed_at"),
    "a part at no place": put("data/x.pack#y", "add", 0, "catalog", "path"),
    "a part at a place of five thousand digits": put("data/x.pack#" + "9" * 5000, "add", 0, "catalog", "path"),
    "a size that no machine counts": put(1 << 63, "add", 0, "catalog", "size"),
    "less than nothing": put(-1, "add", 0, "catalog", "size"),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_commit_is_named_as_damaged(store: MemoryStore, what: str) -> None:
    body = forge(store, FORGED[what])
    with pytest.raises(DamagedError, match=f"{KEY} is damaged or not ours"):
        ArchiveCommit.from_bytes(body, KEY)
    archive = Archive.open(store, before_damage=True)
    assert archive.state.sequence == 0
    assert KEY in str(verify(archive).damage[0])


def test_a_table_is_named_by_an_oid(store: MemoryStore) -> None:
    record = {"id": "1" * 5000, "table_schema": "s", "name": "t", "rows": 1, "digest": "", "files": []}
    body = forge(store, put([record], "add", 0, "tables"))
    with pytest.raises(DamagedError, match=r"tables\.0\.id"):
        ArchiveCommit.from_bytes(body, KEY)
