"""Errors of replication that carry more than a sentence."""

from __future__ import annotations

import pickle

import pytest

from holdfast.common.errors import DamagedError, HoldfastError, RefusedError
from holdfast.replication.log.errors import LostReplicaError, MissingFilesError, OldStoreError, StoreAwayError


def test_missing_files_tell_their_entry_in_other_processes_too() -> None:
    error = pickle.loads(pickle.dumps(MissingFilesError("no replica could give data/x", 7)))  # noqa: S301 - our own
    assert isinstance(error, MissingFilesError)
    assert (str(error), error.index) == ("no replica could give data/x", 7)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MissingFilesError("x", 1), DamagedError),
        (OldStoreError("x"), DamagedError),
        (LostReplicaError("x"), RefusedError),
        (StoreAwayError("x"), HoldfastError),
    ],
)
def test_each_ends_a_command_as_its_kind_does(error: HoldfastError, kind: type[HoldfastError]) -> None:
    assert error.exit_code == kind.exit_code
