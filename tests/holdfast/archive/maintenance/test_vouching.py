"""Beginning to sign, with a checkpoint there, and beside somebody else who adds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.archive import Archive, Change
from holdfast.archive import archive as archive_module
from holdfast.archive.format.block import Block
from holdfast.archive.format.checkpoint import CHECKPOINTS, write_checkpoint
from holdfast.archive.maintenance.vouching import vouch
from holdfast.common.errors import DamagedError
from holdfast.common.signing import Signing
from holdfast.storage import ObjectStore, open_store
from tests.support.signers import signing

MakeBlock = Callable[..., Block]


def nothing() -> None:
    pass


@pytest.fixture
def us(tmp_path: Path) -> Signing:
    return signing(tmp_path / "ours")


def add(store: ObjectStore, block: Block) -> int:
    return Archive.open(store).add(lambda _: Change(kind="backup", add=(block,)), check=nothing, fence="t").sequence


def _as_seen(store: ObjectStore, who: Signing) -> ObjectStore:
    return open_store(store.url, None, who)


def test_checkpoints_are_believed_only_if_they_are_signed(
    archive: Archive, block: MakeBlock, us: Signing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "CHECKPOINT_EVERY", 2)
    plain, ours = archive.store, _as_seen(archive.store, us)
    for number in range(4):
        add(plain, block(position=f"0/{number}00"))
    assert plain.list(CHECKPOINTS).objects
    assert vouch(ours, check=nothing, fence="t").sequence == 5
    for number in range(5, 9):
        add(ours, block(position=f"0/{number}00"))
    state = Archive.open(ours).state
    assert (state.sequence, state.vouched_by) == (9, 5)
    assert all(placed.block.id == placed.id for placed in state.blocks.values())  # of both ages
    newest = plain.list(CHECKPOINTS).objects[0].key
    plain.delete(newest)
    forged = Archive.open(plain)
    write_checkpoint(plain, forged.identity.id, forged.state)  # whatever it says, nobody has signed it
    assert Archive.open(ours).state.sequence == 9


def test_who_vouches_beside_somebody_who_adds_vouches_for_that_too(
    archive: Archive, block: MakeBlock, us: Signing
) -> None:
    plain, ours = archive.store, _as_seen(archive.store, us)
    add(plain, block(position="0/100"))
    beside: Iterator[Callable[[], int]] = iter([lambda: add(plain, block(position="0/200"))])

    def check() -> None:
        for act in beside:
            act()

    made = vouch(ours, check=check, fence="t")
    assert (made.sequence, len(made.vouches or ())) == (3, 2)
    assert Archive.open(ours).state.sequence == 3


def test_what_was_damaged_is_not_vouched_for(archive: Archive, block: MakeBlock, us: Signing) -> None:
    add(archive.store, block(position="0/100"))
    key = archive.store.list("commits/").objects[0].key
    body = archive.store.get(key)
    archive.store.delete(key)
    archive.store.create(key, body.replace(b'"backup"', b'"backap"'))
    with pytest.raises(DamagedError, match="checksum"):
        vouch(_as_seen(archive.store, us), check=nothing, fence="t")
