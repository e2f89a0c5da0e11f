"""What the object locks of an archive are extended for: all that it needs, and no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from holdfast.archive import Archive, Change
from holdfast.archive.format.block import Block
from holdfast.archive.maintenance.verify import Scope, extend_locks, verify_and_remember
from holdfast.storage import SealedStore
from holdfast.storage.contract.object_store import Extended
from locking.store import StoreDenied, StoreError

MakeBlock = Callable[..., Block]


def nothing() -> None:
    pass


class _Locking:
    """Stands for a store that locks objects: it tells which are to be locked."""

    def __init__(self, patch: pytest.MonkeyPatch, failed: Sequence[str] = ()) -> None:
        self.keys: Sequence[str] = ()
        self._failed: dict[str, StoreError] = {key: StoreDenied("not allowed") for key in failed}
        patch.setattr(SealedStore, "locks_objects", True)
        patch.setattr(SealedStore, "extend_locks", lambda _, keys: self(keys))

    def __call__(self, keys: Sequence[str]) -> Extended:
        self.keys = keys
        return Extended(len(keys), 1, self._failed)


def add(archive: Archive, block: Block) -> None:
    archive.add(lambda _: Change(kind="backup", add=(block,)), check=nothing, fence="t")


def test_a_store_that_locks_nothing_is_asked_nothing(archive: Archive) -> None:
    assert extend_locks(archive) is None


def test_all_that_an_archive_needs_is_locked_for_longer(
    archive: Archive, block: MakeBlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, removed = block(position="0/100"), block(position="0/200")
    add(archive, kept)
    add(archive, removed)
    archive.add(lambda _: Change(kind="truncation", remove=(removed.id,)), check=nothing, fence="t")
    locking = _Locking(monkeypatch)
    assert extend_locks(archive) == Extended(len(locking.keys), 1, {})
    commits = {f"commits/{number:020d}.json" for number in (1, 2, 3)}
    assert {"archive.json", *commits} <= set(locking.keys)
    assert {file.key for file in kept.files()} <= set(locking.keys)
    assert not any(removed.id in key for key in locking.keys)


def test_a_verification_extends_them_and_tells_what_could_not_be(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    _Locking(monkeypatch, failed=["archive.json"])
    told = verify_and_remember(archive, Scope()).describe()["object_locks"]
    assert told == {"looked_at": 1, "extended": 1, "failed": {"archive.json": "not allowed"}}
    assert verify_and_remember(archive, Scope(), remember=False).describe()["object_locks"] is None
