"""Replicas whose commits are signed: each vouches for its own, and what they bring each other is signed anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.archive.maintenance.vouching import vouch
from holdfast.common.errors import DamagedError, UsageError
from holdfast.common.signing import KEY_VARIABLE
from tests.support.replicas.replicated import Replicas, nothing, remove
from tests.support.signers import new_signer


@pytest.fixture
def signed(two: Replicas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Replicas:
    """The replicas `near` and `far`, signed since a commit of each."""
    monkeypatch.setenv(KEY_VARIABLE, new_signer(tmp_path / "ours")[0])
    for name in ("near", "far"):
        vouch(two.place(name), check=nothing, fence=None)
    return two


def test_backups_and_syncs_go_on_signed(signed: Replicas) -> None:
    signed.back_up("near")
    assert signed.sync("far").entries == 1
    signed.back_up("far")
    signed.sync("near")
    for name in ("near", "far"):
        state = Archive.open(signed.place(name)).state
        assert state.vouched_by
        assert len(state.blocks) == 3


def test_an_emptied_replica_is_made_anew_signed_from_its_first_commit(signed: Replicas) -> None:
    signed.back_up("near")
    shutil.rmtree(signed.place("far").url)
    signed.coordination.run(lambda c: remove(c, signed.archive, "far"))
    signed.add("far")
    state = Archive.open(signed.place("far")).state
    assert (state.vouched_by, len(state.blocks)) == (1, 2)


def test_nobody_acts_for_a_signed_replica_without_the_key(signed: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE)
    with pytest.raises(UsageError, match="is signed: say where the key that signs is"):
        signed.sync("far")


def test_a_replica_is_not_believed_by_who_knows_another_signer(
    signed: Replicas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, new_signer(tmp_path / "theirs")[0])
    with pytest.raises(DamagedError, match=r"is not signed|says to be signed by"):
        Archive.open(signed.place("near"))
