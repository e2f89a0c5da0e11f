"""Errors of replication that carry more than a sentence."""

from __future__ import annotations

import pickle

from holdfast.replication.log.errors import MissingFilesError


def test_missing_files_tell_their_entry_in_other_processes_too() -> None:
    error = pickle.loads(pickle.dumps(MissingFilesError("no replica could give data/x", 7)))  # noqa: S301 - our own
    assert isinstance(error, MissingFilesError)
    assert (str(error), error.index) == ("no replica could give data/x", 7)
